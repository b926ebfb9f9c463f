#!/usr/bin/env bash
# ORC Java 1.5 (Hive 3.1, Spark up to 3.1) shifts timestamps where one file holds stripes of two time zones.
#
# Each stripe names the zone of its writer, and OrcFile.mergeFiles, which ALTER TABLE … CONCATENATE calls, puts stripes of
# any zones into one file. The reader keeps what it found out about the first stripe's zone: where a later stripe was
# written in the reader's own zone, its timestamps move by the difference of the two. ORC 1.6 and later read them right.
#
# Expected: 2001-06-01 12:00 twice, from both versions. Needs: Java 11 or later, Maven.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >Merged.java <<'JAVA'
import java.sql.Timestamp;
import java.util.*;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.*;
import org.apache.orc.*;

public class Merged {
  static final Configuration CONF = new Configuration();
  static final TypeDescription SCHEMA = TypeDescription.fromString("struct<t:timestamp>");

  static Path write(String zone) throws Exception {
    TimeZone.setDefault(TimeZone.getTimeZone(zone));
    Path path = new Path(zone.replace('/', '_') + ".orc");
    try (Writer writer = OrcFile.createWriter(path, OrcFile.writerOptions(CONF).setSchema(SCHEMA))) {
      VectorizedRowBatch batch = SCHEMA.createRowBatch();
      ((TimestampColumnVector) batch.cols[0]).set(batch.size++, Timestamp.valueOf("2001-06-01 12:00:00"));
      writer.addRowBatch(batch);
    }
    return path;
  }

  public static void main(String[] arguments) throws Exception {
    Path merged = new Path("merged.orc");
    if (arguments.length > 0) {
      OrcFile.mergeFiles(merged, OrcFile.writerOptions(CONF), List.of(write("Europe/Paris"), write("UTC")));
    }
    TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
    Reader reader = OrcFile.createReader(merged, OrcFile.readerOptions(CONF));
    RecordReader rows = reader.rows();
    VectorizedRowBatch batch = SCHEMA.createRowBatch();
    List<String> shown = new ArrayList<>();
    while (rows.nextBatch(batch)) {
      for (int row = 0; row < batch.size; row++) {
        shown.add(((TimestampColumnVector) batch.cols[0]).asScratchTimestamp(row).toString().substring(0, 16));
      }
    }
    System.out.println(String.join(", ", shown));
  }
}
JAVA

run() { # version, arguments
  cat >pom.xml <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.orc</groupId><artifactId>orc-core</artifactId><version>$1</version></dependency>
    <dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-client-api</artifactId><version>3.3.6</version></dependency>
    <dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-client-runtime</artifactId><version>3.3.6</version></dependency>
  </dependencies>
</project>
POM
  mvn -q dependency:build-classpath -Dmdep.outputFile=classpath >/dev/null
  java -cp "$(cat classpath)" Merged.java "${@:2}" 2>/dev/null | tail -1
}

old=$(run 1.5.13 write)
new=$(run 1.6.14)
expected="2001-06-01 12:00, 2001-06-01 12:00"
echo "expected:        $expected"
echo "orc-core 1.5.13: $old"
echo "orc-core 1.6.14: $new"
[[ $new == "$expected" && $old == "2001-06-01 12:00, 2001-06-01 14:00" ]]
