#!/usr/bin/env bash
# ORC Java 1.5 finds no date before 1582-10-15 by a predicate, where it shows days in the proleptic Gregorian calendar.
#
# It looks up the day of `java.sql.Date`, which is Julian before 1582, in bounds that it has converted to the other calendar
# (`convertToProlepticGregorian`). 2.3 compares days of one calendar.
#
# Expected: the predicate finds the date that the reader shows. Needs: Java 11 or later, Maven.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >Dates.java <<'JAVA'
import java.sql.Date;
import java.time.LocalDate;
import java.util.TimeZone;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.*;
import org.apache.hadoop.hive.ql.io.sarg.*;
import org.apache.orc.*;

public class Dates {
  static final Configuration CONF = new Configuration();
  static final TypeDescription SCHEMA = TypeDescription.fromString("struct<d:date>");

  static String read(Path path, SearchArgument argument) throws Exception {
    Reader reader = OrcFile.createReader(path, OrcFile.readerOptions(CONF).convertToProlepticGregorian(true));
    RecordReader rows = reader.rows(reader.options().searchArgument(argument, new String[] {"d"}));
    VectorizedRowBatch batch = SCHEMA.createRowBatch();
    return rows.nextBatch(batch) ? LocalDate.ofEpochDay(((LongColumnVector) batch.cols[0]).vector[0]).toString() : "lost";
  }

  static String seen(String text) throws Exception {
    Path path = new Path("file.orc");
    try (Writer writer = OrcFile.createWriter(path, OrcFile.writerOptions(CONF).setSchema(SCHEMA).overwrite(true))) {
      VectorizedRowBatch batch = SCHEMA.createRowBatch();
      ((DateColumnVector) batch.cols[0]).setUsingProlepticCalendar(true);
      ((DateColumnVector) batch.cols[0]).vector[batch.size++] = LocalDate.parse(text).toEpochDay();
      writer.addRowBatch(batch);
    }
    Date literal = Date.valueOf(text);
    SearchArgument equal = SearchArgumentFactory.newBuilder().equals("d", PredicateLeaf.Type.DATE, literal).build();
    return text + " is shown as " + read(path, null) + ", found as " + read(path, equal);
  }

  public static void main(String[] arguments) throws Exception {
    TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
    System.out.println(seen("1000-02-28") + "; " + seen("1600-02-28"));
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
  java -cp "$(cat classpath)" Dates.java 2>/dev/null | tail -1
}

old=$(run 1.5.13)
new=$(run 2.3.1 com.google.protobuf:protobuf-java:3.25.8 org.apache.hive:hive-storage-api:2.8.1)
late="1600-02-28 is shown as 1600-02-28, found as 1600-02-28"
echo "expected:        1000-02-28 is shown as 1000-02-28, found as 1000-02-28; $late"
echo "orc-core 1.5.13: $old"
echo "orc-core 2.3.1:  $new"
[[ $old == "1000-02-28 is shown as 1000-02-28, found as lost; $late" ]]
[[ $new == "1000-02-28 is shown as 1000-02-28, found as 1000-02-28; $late" ]]
