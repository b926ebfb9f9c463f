#!/usr/bin/env bash
# ORC Java 1.5 (Hive 3.1, Spark up to 3.1) finds no long text that ORC Java 1.6 or later wrote, if it is looked up by a predicate.
#
# Newer writers cut bounds of more than 1,024 bytes and store them in fields of their own, lower_bound and upper_bound. The older reader
# knows minimum and maximum alone; where both are missing it takes the row group for NULLs, and leaves it out.
#
# Expected: the text is found by both versions. Needs: Java 11 or later, Maven.
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
  static final TypeDescription SCHEMA = TypeDescription.fromString("struct<s:string>");

  static void write(Path path, String text) throws Exception {
    OrcFile.WriterOptions options = OrcFile.writerOptions(CONF).setSchema(SCHEMA).compress(CompressionKind.ZLIB);
    try (Writer writer = OrcFile.createWriter(path, options)) {
      VectorizedRowBatch batch = SCHEMA.createRowBatch();
      ((BytesColumnVector) batch.cols[0]).setVal(batch.size++, text.getBytes(StandardCharsets.UTF_8));
      writer.addRowBatch(batch);
    }
  }

  static String seen(Path path, String text) throws Exception {
    SearchArgument equal = SearchArgumentFactory.newBuilder().equals("s", PredicateLeaf.Type.STRING, text).build();
    Reader reader = OrcFile.createReader(path, OrcFile.readerOptions(CONF));
    RecordReader rows = reader.rows(reader.options().searchArgument(equal, new String[] {"s"}));
    VectorizedRowBatch batch = SCHEMA.createRowBatch();
    return rows.nextBatch(batch) && text.equals(((BytesColumnVector) batch.cols[0]).toString(0)) ? "found" : "lost";
  }

  public static void main(String[] arguments) throws Exception {
    String[] seen = new String[2];
    for (int index = 0; index < 2; index++) {
      String text = "x".repeat(1024 + index);
      Path path = new Path(text.length() + ".orc");
      if (arguments.length > 0) {
        write(path, text);
      }
      seen[index] = text.length() + " bytes: " + seen(path, text);
    }
    System.out.println(String.join("; ", seen));
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
  java -cp "$(cat classpath)" Texts.java $mode 2>/dev/null | tail -1
}

mode=write
new=$(run 2.3.1 com.google.protobuf:protobuf-java:3.25.8 org.apache.hive:hive-storage-api:2.8.1)
mode=
old=$(run 1.5.13)
echo "expected:        every text found"
echo "orc-core 2.3.1:  $new"
echo "orc-core 1.5.13: $old"
[[ $new == "1024 bytes: found; 1025 bytes: found" && $old == "1024 bytes: found; 1025 bytes: lost" ]]
