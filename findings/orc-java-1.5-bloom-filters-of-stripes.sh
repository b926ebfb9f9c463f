#!/usr/bin/env bash
# ORC Java 1.5 (Hive 3.1, Spark up to 3.1) loses rows where a stripe without Bloom filters follows one that has them.
#
# OrcFile.mergeFiles, which ALTER TABLE … CONCATENATE calls, puts both into one file without a word. With a search argument
# the reader keeps the filters of the earlier stripe, and looks the values of the later one up in them. ORC 1.6 and later
# find every row.
#
# Expected: 100 of 100 ids found, by both versions. Needs: Java 11 or later, Maven.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >Merged.java <<'JAVA'
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.*;
import org.apache.hadoop.hive.ql.io.sarg.*;
import org.apache.orc.*;

public class Merged {
  static final Configuration CONF = new Configuration();
  static final TypeDescription SCHEMA = TypeDescription.fromString("struct<id:bigint>");

  static Path write(String name, long first, String filtered) throws Exception {
    Path path = new Path(name);
    OrcFile.WriterOptions options = OrcFile.writerOptions(CONF).setSchema(SCHEMA).bloomFilterColumns(filtered);
    try (Writer writer = OrcFile.createWriter(path, options)) {
      VectorizedRowBatch batch = SCHEMA.createRowBatch();
      for (int row = 0; row < 1000; row++) {
        ((LongColumnVector) batch.cols[0]).vector[batch.size++] = first + row;
      }
      writer.addRowBatch(batch);
    }
    return path;
  }

  static boolean isFound(Path path, long id) throws Exception {
    SearchArgument equal = SearchArgumentFactory.newBuilder().equals("id", PredicateLeaf.Type.LONG, id).build();
    Reader reader = OrcFile.createReader(path, OrcFile.readerOptions(CONF));
    RecordReader rows = reader.rows(reader.options().searchArgument(equal, new String[] {"id"}));
    VectorizedRowBatch batch = SCHEMA.createRowBatch();
    while (rows.nextBatch(batch)) {
      for (int row = 0; row < batch.size; row++) {
        if (((LongColumnVector) batch.cols[0]).vector[row] == id) {
          return true;
        }
      }
    }
    return false;
  }

  public static void main(String[] arguments) throws Exception {
    Path merged = new Path("merged.orc");
    if (arguments.length > 0) {
      OrcFile.mergeFiles(
          merged, OrcFile.writerOptions(CONF), List.of(write("filtered.orc", 0, "id"), write("plain.orc", 50000, "")));
    }
    int count = 0;
    for (long id = 50000; id < 50100; id++) {
      count += isFound(merged, id) ? 1 : 0;
    }
    System.out.println(count);
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
echo "expected:        100 of 100 ids found"
echo "orc-core 1.5.13: $old of 100 ids found"
echo "orc-core 1.6.14: $new of 100 ids found"
[[ $new == 100 && $old -lt 50 ]]
