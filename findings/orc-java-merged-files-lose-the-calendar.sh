#!/usr/bin/env bash
# `OrcFile.mergeFiles` moves days before 1582-10-15: it copies the stripes of proleptic Gregorian files, but the merged file's
# footer names the hybrid calendar, the default of the options. Spark 3 and later write proleptic Gregorian files. `orc-tools merge`
# calls this method and offers no option for the calendar.
#
# mergeFiles refuses to join files of different calendars. The two files here have the same one.
#
# Expected: the merged file shows the days of its files. Needs: Java 11 or later, Maven.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >Merge.java <<'JAVA'
import java.time.LocalDate;
import java.util.List;
import java.util.TimeZone;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.*;
import org.apache.orc.*;

public class Merge {
  static final Configuration CONF = new Configuration();
  static final TypeDescription SCHEMA = TypeDescription.fromString("struct<day:date>");

  static Path write(String name, String day) throws Exception {
    Path path = new Path(name);
    OrcFile.WriterOptions options = OrcFile.writerOptions(CONF).setSchema(SCHEMA).setProlepticGregorian(true);
    try (Writer writer = OrcFile.createWriter(path, options)) {
      VectorizedRowBatch batch = SCHEMA.createRowBatch();
      DateColumnVector days = (DateColumnVector) batch.cols[0];
      days.changeCalendar(true, false);
      days.vector[0] = LocalDate.parse(day).toEpochDay();
      batch.size = 1;
      writer.addRowBatch(batch);
    }
    return path;
  }

  static String read(Path path) throws Exception {
    Reader reader = OrcFile.createReader(path, OrcFile.readerOptions(CONF).convertToProlepticGregorian(true));
    StringBuilder days = new StringBuilder();
    VectorizedRowBatch batch = SCHEMA.createRowBatch();
    for (RecordReader rows = reader.rows(); rows.nextBatch(batch); ) {
      for (int row = 0; row < batch.size; row++) {
        days.append(' ').append(LocalDate.ofEpochDay(((LongColumnVector) batch.cols[0]).vector[row]));
      }
    }
    return days.toString();
  }

  public static void main(String[] arguments) throws Exception {
    TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
    Path first = write("first.orc", "1000-02-28"), second = write("second.orc", "1582-10-04"), merged = new Path("merged.orc");
    int files = OrcFile.mergeFiles(merged, OrcFile.writerOptions(CONF), List.of(first, second)).size();
    System.out.println("files:" + read(first) + read(second) + "; merged (" + files + "):" + read(merged));
  }
}
JAVA
cat >pom.xml <<'XML'
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>finding</groupId><artifactId>finding</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.orc</groupId><artifactId>orc-core</artifactId><version>2.3.1</version></dependency>
<dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-client-api</artifactId><version>3.3.6</version></dependency>
<dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-client-runtime</artifactId><version>3.3.6</version></dependency>
<dependency><groupId>com.google.protobuf</groupId><artifactId>protobuf-java</artifactId><version>3.25.8</version></dependency>
<dependency><groupId>org.apache.hive</groupId><artifactId>hive-storage-api</artifactId><version>2.8.1</version></dependency>
</dependencies></project>
XML
mvn -q dependency:build-classpath -Dmdep.outputFile=classpath >/dev/null
seen=$(java -cp "$(cat classpath)" Merge.java 2>/dev/null | tail -1)
echo "expected:  files: 1000-02-28 1582-10-04; merged (2): 1000-02-28 1582-10-04"
echo "ORC 2.3.1: $seen"
[[ $seen == "files: 1000-02-28 1582-10-04; merged (2): 1000-02-23 1582-09-24" ]]
