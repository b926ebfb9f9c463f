# A Spark worker that can run Compactor's units: the package and its readers, no Airflow and no database driver.
ARG SPARK_IMAGE
FROM ${SPARK_IMAGE}

USER 0
COPY . /opt/compactor
RUN pip install --no-cache-dir /opt/compactor "pandas>=2.2,<3" "msgspec>=0.19"
# spark, by number: Kubernetes then sees that it is not root.
USER 185
