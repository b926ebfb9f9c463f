# A Spark cluster that can run Compactor's units: Spark, the package and its readers, no Airflow and no database driver.
# PySpark wants one minor version of Python in driver and executors: PYTHON_IMAGE has that of AIRFLOW_IMAGE. Spark's own image
# may have Python 3.10, which Compactor does not support.
ARG PYTHON_IMAGE
FROM ${PYTHON_IMAGE}

ARG SPARK_VERSION
USER 0
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
COPY . /opt/compactor
RUN pip install --no-cache-dir "/opt/compactor[spark]" "pyspark==${SPARK_VERSION}" \
    && ln -s "$(python3 -c 'import pyspark; print(*pyspark.__path__)')" /opt/spark
ENV SPARK_HOME=/opt/spark
# By number: Kubernetes then sees that it is not root.
USER 185
