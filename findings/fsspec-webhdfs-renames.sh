#!/usr/bin/env bash
# fsspec's WebHDFS takes a refused rename for a success: moves, copies and transactions that do nothing end without an error.
#
# HDFS never renames onto an existing file, nor into a missing folder. Its NameNode answers such a request with status 200 and
# {"boolean": false}, and fsspec reads the status alone. cp_file and transactions write a temporary file and rename it at the end,
# so they leave the old contents in place; of a new file in a new folder nothing is there.
#
# Expected: an error, or the new contents. Needs: Python 3.11 to 3.13 with venv, Java 11 or 17, Maven.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check fsspec==2026.9.0 requests==2.32.5

{
  echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
  echo '<groupId>finding</groupId><artifactId>finding</artifactId><version>1</version><dependencies>'
  for dependency in com.fasterxml.jackson.core:jackson-core:2.12.7 com.fasterxml.jackson.core:jackson-annotations:2.12.7 \
    org.apache.hadoop:hadoop-minicluster:3.4.1 junit:junit:4.13.2 org.mockito:mockito-core:4.11.0; do
    IFS=: read -r group artifact version <<<"$dependency"
    echo "<dependency><groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version></dependency>"
  done
  echo '</dependencies></project>'
} >pom.xml
cat >Cluster.java <<'JAVA'
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

public class Cluster {
  public static void main(String[] arguments) throws Exception {
    Configuration conf = new Configuration();
    try (MiniDFSCluster cluster = new MiniDFSCluster.Builder(conf, new java.io.File("dfs")).numDataNodes(1).build()) {
      cluster.waitActive();
      System.out.println("at " + cluster.getHttpUri(0).replace("http://", ""));
      System.in.read(); // until the script closes it
    }
    System.exit(0);
  }
}
JAVA
mvn -q dependency:build-classpath -Dmdep.outputFile=classpath >/dev/null

venv/bin/python - <<'PYTHON'
import getpass
import subprocess

import fsspec

java = ["java", "-Xmx512m", "--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", open("classpath").read(), "Cluster.java"]
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
with subprocess.Popen(java, text=True, **pipes) as cluster:
    host, port = next(line for line in cluster.stdout if line.startswith("at ")).removeprefix("at ").strip().split(":")
    files = fsspec.filesystem("webhdfs", host=host, port=int(port), user=getpass.getuser())
    files.pipe_file("/new", b"new")
    files.pipe_file("/old", b"old")
    files.mv("/new", "/old")
    moved = files.cat_file("/old")
    files.cp_file("/new", "/old")
    copied = files.cat_file("/old")
    with files.transaction:
        with files.open("/old", "wb") as file:
            file.write(b"new")
        with files.open("/folder/file", "wb") as file:
            file.write(b"new")
    written, exists = files.cat_file("/old"), files.exists("/folder/file")
    cluster.stdin.close()
print(f"fsspec {fsspec.__version__}, HDFS 3.4.1: expected b'new', seen {moved} after mv, {copied} after cp_file, {written} after a")
print(f"transaction; its new file: expected True, seen {exists}")
raise SystemExit((moved, copied, written, exists) != (b"old", b"old", b"old", False))
PYTHON
