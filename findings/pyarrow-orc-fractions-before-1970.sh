#!/usr/bin/env bash
# ORC Java cannot read files of pyarrow that hold a timestamp before 1970 with a fraction of a second.
#
# ORC stores the nanoseconds of such a time as a number from 0 to 999,999,999. pyarrow writes a negative one, which its own reader
# turns back; ORC Java, and with it Hive and Spark, fails on the whole file.
#
# Expected: 1969-12-31 23:58:20.000000123 in both readers. Needs: Python 3.11 to 3.13 with venv, Java 11 or later, Maven.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pyarrow==26.0.1

own=$(venv/bin/python - <<'PYTHON'
import pyarrow as pa
from pyarrow import orc

orc.write_table(pa.table({"t": pa.array([-100 * 10**9 + 123], pa.timestamp("ns"))}), "file.orc")
print(str(orc.read_table("file.orc")["t"].cast(pa.string())[0]))
PYTHON
)

cat >pom.xml <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.orc</groupId><artifactId>orc-core</artifactId><version>1.5.13</version></dependency>
    <dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-client-api</artifactId><version>3.3.6</version></dependency>
    <dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-client-runtime</artifactId><version>3.3.6</version></dependency>
  </dependencies>
</project>
POM
cat >Read.java <<'JAVA'
import java.util.TimeZone;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.*;
import org.apache.orc.*;

public class Read {
  public static void main(String[] arguments) throws Exception {
    TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
    Reader reader = OrcFile.createReader(new Path("file.orc"), OrcFile.readerOptions(new Configuration()));
    VectorizedRowBatch batch = reader.getSchema().createRowBatch();
    try {
      reader.rows().nextBatch(batch);
      System.out.println(((TimestampColumnVector) batch.cols[0]).asScratchTimestamp(0));
    } catch (Exception error) {
      System.out.println("fails: " + error.getMessage());
    }
  }
}
JAVA
mvn -q dependency:build-classpath -Dmdep.outputFile=classpath >/dev/null
java=$(java -cp "$(cat classpath)" Read.java 2>/dev/null | tail -1)

echo "expected:        1969-12-31 23:58:20.000000123"
echo "pyarrow 26.0.1:  $own"
echo "orc-core 1.5.13: $java"
[[ $own == "1969-12-31 23:58:20.000000123" && $java != "$own" ]]
