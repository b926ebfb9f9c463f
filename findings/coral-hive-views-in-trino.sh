#!/usr/bin/env bash
# Coral, with which Trino reads Hive's views (`hive.hive-views.enabled=true`), translates expressions into ones with another answer:
#
#   n / 2                Hive divides as doubles (5 / 2 is 2.5), Trino divides integers (2)
#   CAST(d AS int)       Hive cuts off digits (2.7 becomes 2), Trino rounds (3)
#   s LIKE 'a\\_b'       a backslash escapes in Hive; in Trino it is a character unless ESCAPE names it
#   split(s, '\\.')      Hive splits at a regular expression, Trino at the text
#   collect_list(n)      Hive leaves out NULLs, Trino's array_agg keeps them
#
# Expected: a translation with Hive's answer. Needs: Java 11 or later, Maven.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >Views.java <<'JAVA'
import com.linkedin.coral.common.HiveMetastoreClient;
import com.linkedin.coral.hive.hive2rel.HiveToRelConverter;
import com.linkedin.coral.hive.metastore.api.*;
import com.linkedin.coral.trino.rel2trino.RelToTrinoConverter;
import java.util.*;

public class Views implements HiveMetastoreClient {
  public List<String> getAllDatabases() { return List.of("default"); }
  public List<String> getAllTables(String database) { return List.of("t"); }
  public Database getDatabase(String name) { return new Database(name, "", "", new HashMap<>()); }

  public Table getTable(String database, String name) {
    StorageDescriptor storage = new StorageDescriptor();
    storage.setCols(List.of(
        new FieldSchema("n", "int", ""), new FieldSchema("d", "double", ""), new FieldSchema("s", "string", "")));
    SerDeInfo serde = new SerDeInfo();
    serde.setParameters(new HashMap<>());
    storage.setSerdeInfo(serde);
    Table table = new Table();
    table.setDbName(database);
    table.setTableName(name);
    table.setTableType("MANAGED_TABLE");
    table.setOwner("owner");
    table.setSd(storage);
    table.setPartitionKeys(new ArrayList<>());
    table.setParameters(new HashMap<>());
    return table;
  }

  public static void main(String[] expressions) {
    Views metastore = new Views();
    for (String expression : expressions) {
      String view = "SELECT " + expression + " FROM t";
      String query = new RelToTrinoConverter(metastore).convert(new HiveToRelConverter(metastore).convertSql(view));
      System.out.println(query.replaceAll("\\s+", " ").replace("SELECT ", "").replaceAll(" FROM .*", ""));
    }
  }
}
JAVA
cat >pom.xml <<'XML'
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>finding</groupId><artifactId>finding</artifactId><version>1</version><dependencies>
<dependency><groupId>io.trino.coral</groupId><artifactId>coral</artifactId><version>2.2.49-1</version></dependency>
<dependency><groupId>com.google.guava</groupId><artifactId>guava</artifactId><version>33.3.1-jre</version></dependency>
<dependency><groupId>commons-lang</groupId><artifactId>commons-lang</artifactId><version>2.6</version></dependency>
</dependencies></project>
XML
mvn -q dependency:build-classpath -Dmdep.outputFile=classpath >/dev/null
views=('n / 2' 'CAST(d AS int)' "s LIKE 'a\\\\_b'" "split(s, '\\\\.')" 'collect_list(n)')
seen=$(java -cp "$(cat classpath)" Views.java "${views[@]}" 2>/dev/null)
echo "expected: n / 2 as doubles, a cast without rounding, LIKE with ESCAPE, a split at a regular expression, a list without NULLs"
echo "coral 2.2.49-1:"
echo "$seen"
[[ $seen == '"t"."n" / 2
CAST("t"."d" AS INTEGER)
"t"."s" LIKE '\''a\\_b'\''
"split"("t"."s", '\''\\.'\'')
"array_agg"("t"."n")' ]]
