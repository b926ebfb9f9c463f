# Hive with the driver of its metastore's database, which its image does not include.
ARG HIVE_IMAGE
FROM maven:3.9.11-eclipse-temurin-17 AS driver
RUN mvn -q dependency:copy -Dartifact=org.postgresql:postgresql:42.7.7 -DoutputDirectory=/driver

FROM ${HIVE_IMAGE}
COPY --from=driver /driver/*.jar /opt/hive/lib/
COPY docker/hivemetastore-site.xml /opt/hive/conf/
