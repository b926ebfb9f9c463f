#!/usr/bin/env bash
# Predicates on doubles lose rows in ORC Java: 1.5 where a NaN comes first, 1.5 and 2.3 where zeros have different signs.
#
# A NaN that is the first value of a stripe becomes both its minimum and its maximum; ORC 1.5 (Hive 3.1, Spark up to 3.1) then
# finds no number in that stripe. And both versions compare bounds by their bits: a row of -0.0 is not found by d = 0.0, though
# SQL calls them equal.
#
# Expected: each predicate finds its row. Needs: Java 11 or later, Maven.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >Doubles.java <<'JAVA'
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.*;
import org.apache.hadoop.hive.ql.io.sarg.*;
import org.apache.orc.*;

public class Doubles {
  static final Configuration CONF = new Configuration();
  static final TypeDescription SCHEMA = TypeDescription.fromString("struct<d:double>");

  static Path write(String name, double... values) throws Exception {
    Path path = new Path(name);
    try (Writer writer = OrcFile.createWriter(path, OrcFile.writerOptions(CONF).setSchema(SCHEMA).overwrite(true))) {
      VectorizedRowBatch batch = SCHEMA.createRowBatch();
      for (double value : values) {
        ((DoubleColumnVector) batch.cols[0]).vector[batch.size++] = value;
      }
      writer.addRowBatch(batch);
    }
    return path;
  }

  static String seen(Path path, double wanted) throws Exception {
    SearchArgument equal = SearchArgumentFactory.newBuilder().equals("d", PredicateLeaf.Type.FLOAT, wanted).build();
    Reader reader = OrcFile.createReader(path, OrcFile.readerOptions(CONF));
    RecordReader rows = reader.rows(reader.options().searchArgument(equal, new String[] {"d"}));
    VectorizedRowBatch batch = SCHEMA.createRowBatch();
    while (rows.nextBatch(batch)) {
      for (int row = 0; row < batch.size; row++) {
        if (((DoubleColumnVector) batch.cols[0]).vector[row] == wanted) {
          return "found";
        }
      }
    }
    return "lost";
  }

  public static void main(String[] arguments) throws Exception {
    System.out.println(
        "[NaN, 1.0] d = 1.0: " + seen(write("nan.orc", Double.NaN, 1.0), 1.0)
            + "; [1.0, NaN] d = 1.0: " + seen(write("last.orc", 1.0, Double.NaN), 1.0)
            + "; [-0.0] d = 0.0: " + seen(write("zero.orc", -0.0), 0.0));
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
  java -cp "$(cat classpath)" Doubles.java 2>/dev/null | tail -1
}

old=$(run 1.5.13)
new=$(run 2.3.1 com.google.protobuf:protobuf-java:3.25.8 org.apache.hive:hive-storage-api:2.8.1)
echo "expected:        every row found"
echo "orc-core 1.5.13: $old"
echo "orc-core 2.3.1:  $new"
[[ $old == "[NaN, 1.0] d = 1.0: lost; [1.0, NaN] d = 1.0: "*"; [-0.0] d = 0.0: lost" ]]
[[ $new == "[NaN, 1.0] d = 1.0: found; [1.0, NaN] d = 1.0: found; [-0.0] d = 0.0: lost" ]]
