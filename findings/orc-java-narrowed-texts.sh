#!/usr/bin/env bash
# ORC Java loses rows by predicates on a column whose varchar or char was made shorter.
#
# After ALTER TABLE … CHANGE from string to varchar(5), or from char(10) to char(5), the reader cuts the values of older files and
# shows 'abcde' for 'abcdefgh'. It still compares 'abcde' with the bounds of the file, which are of whole texts. Of most
# other conversions it knows that the bounds do not count any more.
#
# Expected: v = 'abcde' finds the row that the reader shows as 'abcde'. Needs: Java 11 or later, Maven.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >Texts.java <<'JAVA'
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.*;
import org.apache.hadoop.hive.ql.io.sarg.*;
import org.apache.orc.*;

public class Texts {
  static final Configuration CONF = new Configuration();

  static Path write(TypeDescription schema) throws Exception {
    Path path = new Path("file.orc");
    try (Writer writer = OrcFile.createWriter(path, OrcFile.writerOptions(CONF).setSchema(schema).overwrite(true))) {
      VectorizedRowBatch batch = schema.createRowBatch();
      ((BytesColumnVector) batch.cols[0]).setVal(batch.size++, "abcdefgh".getBytes(StandardCharsets.UTF_8));
      writer.addRowBatch(batch);
    }
    return path;
  }

  static String read(Path path, TypeDescription schema, SearchArgument argument) throws Exception {
    Reader reader = OrcFile.createReader(path, OrcFile.readerOptions(CONF));
    RecordReader rows = reader.rows(reader.options().schema(schema).searchArgument(argument, new String[] {"v"}));
    VectorizedRowBatch batch = schema.createRowBatch();
    return rows.nextBatch(batch) ? ((BytesColumnVector) batch.cols[0]).toString(0) : null;
  }

  static String seen(String before, String after) throws Exception {
    Path path = write(TypeDescription.fromString("struct<v:" + before + ">"));
    TypeDescription schema = TypeDescription.fromString("struct<v:" + after + ">");
    SearchArgument equal = SearchArgumentFactory.newBuilder().equals("v", PredicateLeaf.Type.STRING, "abcde").build();
    boolean isShown = "abcde".equals(read(path, schema, null));
    return before + " to " + after + ": " + (isShown ? (read(path, schema, equal) == null ? "lost" : "found") : "not cut");
  }

  public static void main(String[] arguments) throws Exception {
    System.out.println(String.join("; ", seen("string", "varchar(5)"), seen("varchar(10)", "varchar(5)"),
        seen("char(10)", "char(5)"), seen("string", "char(5)")));
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
  java -cp "$(cat classpath)" Texts.java 2>/dev/null | tail -1
}

old=$(run 1.5.13)
new=$(run 2.3.1 com.google.protobuf:protobuf-java:3.25.8 org.apache.hive:hive-storage-api:2.8.1)
echo "expected:        every row found"
echo "orc-core 1.5.13: $old"
echo "orc-core 2.3.1:  $new"
lost="string to varchar(5): lost; varchar(10) to varchar(5): lost; char(10) to char(5): lost; string to char(5): found"
[[ $old == "$lost" && $new == "$lost" ]]
