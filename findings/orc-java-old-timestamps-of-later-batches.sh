#!/usr/bin/env bash
# ORC Java stores timestamps before 1582-10-15 five days off in every batch but the first, in a proleptic Gregorian file
# (`orc.proleptic.gregorian=true`). The year 1000 becomes one of those; other centuries differ by other days.
#
# The writer converts the caller's batch to the file's calendar and marks it as converted. `VectorizedRowBatch.reset()` keeps
# the mark, so the values of the next batch count as converted. orc-mapreduce, through which MapReduce and Spark write, fills
# one batch again and again, too. A caller of orc-core can mark each vector with `setUsingProlepticCalendar(false)`.
#
# Expected: each value is read back as it was written. Needs: Java 11 or later, Maven.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >Batches.java <<'JAVA'
import java.sql.Timestamp;
import java.util.TimeZone;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.*;
import org.apache.hadoop.io.NullWritable;
import org.apache.orc.*;
import org.apache.orc.mapred.*;
import org.apache.orc.mapreduce.OrcMapreduceRecordWriter;

public class Batches {
  static final Configuration CONF = new Configuration();
  static final TypeDescription SCHEMA = TypeDescription.fromString("struct<t:timestamp,l:array<timestamp>>");
  static final Timestamp VALUE = Timestamp.valueOf("1000-02-28 12:00:00");

  static Writer writer(Path path) throws Exception {
    OrcFile.WriterOptions options = OrcFile.writerOptions(CONF).setSchema(SCHEMA).overwrite(true);
    return OrcFile.createWriter(path, options.setProlepticGregorian(true));
  }

  static void core(Path path) throws Exception {
    VectorizedRowBatch batch = SCHEMA.createRowBatch();
    ListColumnVector list = (ListColumnVector) batch.cols[1];
    try (Writer writer = writer(path)) {
      for (int part = 0; part < 2; part++) {
        batch.reset();
        for (int row = 0; row < 1024; row++) {
          ((TimestampColumnVector) batch.cols[0]).set(row, VALUE);
          list.offsets[row] = list.childCount++;
          list.lengths[row] = 1;
          ((TimestampColumnVector) list.child).set(row, VALUE);
        }
        batch.size = 1024;
        writer.addRowBatch(batch);
      }
    }
  }

  static void mapReduce(Path path) throws Exception {
    OrcMapreduceRecordWriter<OrcStruct> rows = new OrcMapreduceRecordWriter<>(writer(path));
    OrcStruct row = (OrcStruct) OrcStruct.createValue(SCHEMA);
    OrcTimestamp value = new OrcTimestamp(VALUE.getTime());
    OrcList<OrcTimestamp> list = new OrcList<>(SCHEMA.getChildren().get(1));
    list.add(value);
    row.setAllFields(value, list);
    for (int number = 0; number < 2048; number++) {
      rows.write(NullWritable.get(), row);
    }
    rows.close(null);
  }

  static String seen(Path path) throws Exception {
    StringBuilder seen = new StringBuilder();
    Reader reader = OrcFile.createReader(path, OrcFile.readerOptions(CONF).convertToProlepticGregorian(false));
    RecordReader rows = reader.rows();
    VectorizedRowBatch batch = SCHEMA.createRowBatch(1024);
    while (rows.nextBatch(batch)) {
      Timestamp plain = ((TimestampColumnVector) batch.cols[0]).asScratchTimestamp(0);
      seen.append(plain.toString().substring(0, 10)).append(' ');
      Timestamp item = ((TimestampColumnVector) ((ListColumnVector) batch.cols[1]).child).asScratchTimestamp(0);
      seen.append(item.toString().substring(0, 10)).append(' ');
    }
    return seen.toString().trim();
  }

  public static void main(String[] arguments) throws Exception {
    TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
    core(new Path("core.orc"));
    mapReduce(new Path("mapreduce.orc"));
    System.out.println("orc-core: " + seen(new Path("core.orc")) + "; orc-mapreduce: " + seen(new Path("mapreduce.orc")));
  }
}
JAVA

run() { # version, further dependencies as group:artifact:version
  {
    echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    echo '<groupId>finding</groupId><artifactId>finding</artifactId><version>1</version><dependencies>'
    for dependency in "org.apache.orc:orc-core:$1" "org.apache.orc:orc-mapreduce:$1" \
      org.apache.hadoop:hadoop-client-api:3.3.6 org.apache.hadoop:hadoop-client-runtime:3.3.6 "${@:2}"; do
      IFS=: read -r group artifact version <<<"$dependency"
      echo "<dependency><groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version></dependency>"
    done
    echo '</dependencies></project>'
  } >pom.xml
  mvn -q dependency:build-classpath -Dmdep.outputFile=classpath >/dev/null
  java -cp "$(cat classpath)" Batches.java 2>/dev/null | tail -1
}

old=$(run 1.5.13)
new=$(run 2.3.1 com.google.protobuf:protobuf-java:3.25.8 org.apache.hive:hive-storage-api:2.8.1)
echo "expected:   the first rows of two batches, a timestamp and one in an array, are of 1000-02-28"
echo "ORC 1.5.13: $old"
echo "ORC 2.3.1:  $new"
seen="1000-02-28 1000-02-28 1000-03-05 1000-03-05"
[[ $old == "orc-core: $seen; orc-mapreduce: $seen" ]]
[[ $new == "orc-core: $seen; orc-mapreduce: $seen" ]]
