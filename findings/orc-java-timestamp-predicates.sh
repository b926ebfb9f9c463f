#!/usr/bin/env bash
# Predicates on timestamps lose rows in ORC Java: in the hour that comes twice in autumn, before 1582-10-15 (1.6 and later), and
# with digits below a millisecond (1.5).
#
# Bounds hold the time on the wall: of two hours with one name they mean the later, so that no bound lies below a value in the
# earlier. Since 1.6 old bounds become proleptic Gregorian, while values and literals stay in the calendar of java.sql.Timestamp.
# And 1.5 (Hive 3.1) cuts bounds to milliseconds (ORC-611). Spark 4.3 pushes such literals down, and loses the first two kinds.
#
# Expected: each predicate finds the value that the reader shows. Needs: Java 11 or later, Maven.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >Times.java <<'JAVA'
import java.sql.Timestamp;
import java.util.TimeZone;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.*;
import org.apache.hadoop.hive.ql.io.sarg.*;
import org.apache.orc.*;

public class Times {
  static final Configuration CONF = new Configuration();
  static final TypeDescription SCHEMA = TypeDescription.fromString("struct<t:timestamp>");

  static Path write(String name, Timestamp value) throws Exception {
    Path path = new Path(name);
    try (Writer writer = OrcFile.createWriter(path, OrcFile.writerOptions(CONF).setSchema(SCHEMA).overwrite(true))) {
      VectorizedRowBatch batch = SCHEMA.createRowBatch();
      ((TimestampColumnVector) batch.cols[0]).set(batch.size++, value);
      writer.addRowBatch(batch);
    }
    return path;
  }

  static Timestamp read(Path path, SearchArgument argument) throws Exception {
    Reader reader = OrcFile.createReader(path, OrcFile.readerOptions(CONF));
    RecordReader rows = reader.rows(reader.options().searchArgument(argument, new String[] {"t"}));
    VectorizedRowBatch batch = SCHEMA.createRowBatch();
    return rows.nextBatch(batch) ? ((TimestampColumnVector) batch.cols[0]).asScratchTimestamp(0) : null;
  }

  static String seen(Timestamp value) throws Exception {
    Path path = write("file.orc", value);
    SearchArgument equal = SearchArgumentFactory.newBuilder().equals("t", PredicateLeaf.Type.TIMESTAMP, value).build();
    return value.equals(read(path, null)) ? (value.equals(read(path, equal)) ? "found" : "lost") : "changed";
  }

  public static void main(String[] arguments) throws Exception {
    TimeZone.setDefault(TimeZone.getTimeZone("America/Los_Angeles"));
    long first = 1604219400000L; // 2020-11-01 01:30 PDT; an hour later it was 01:30 again
    String old = seen(Timestamp.valueOf("1500-01-01 00:00:00")), small = seen(Timestamp.valueOf("2020-07-01 12:00:00.123456"));
    String early = seen(new Timestamp(first)), late = seen(new Timestamp(first + 3600000));
    System.out.println("01:30 PDT: " + early + "; 01:30 PST: " + late + "; 1500-01-01: " + old + "; .123456: " + small);
  }
}
JAVA

run() { # version, further dependencies as group:artifact:version
  {
    echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    echo '<groupId>finding</groupId><artifactId>finding</artifactId><version>1</version><dependencies>'
    for dependency in "org.apache.orc:orc-core:$1" org.apache.hadoop:hadoop-client-api:3.3.6 \
      org.apache.hadoop:hadoop-client-runtime:3.3.6 "${@:2}"; do
      IFS=: read -r group artifact version <<<"$dependency"
      echo "<dependency><groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version></dependency>"
    done
    echo '</dependencies></project>'
  } >pom.xml
  mvn -q dependency:build-classpath -Dmdep.outputFile=classpath >/dev/null
  java -cp "$(cat classpath)" Times.java 2>/dev/null | tail -1
}

old=$(run 1.5.13)
new=$(run 2.3.1 com.google.protobuf:protobuf-java:3.25.8 org.apache.hive:hive-storage-api:2.8.1)
echo "expected:        every row found"
echo "orc-core 1.5.13: $old"
echo "orc-core 2.3.1:  $new"
[[ $old == "01:30 PDT: lost; 01:30 PST: found; 1500-01-01: found; .123456: lost" ]]
[[ $new == "01:30 PDT: lost; 01:30 PST: found; 1500-01-01: lost; .123456: found" ]]
