import java.io.IOException;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.IMetaStoreClient;
import org.apache.hadoop.hive.metastore.MetaStoreThread;
import org.apache.hadoop.hive.ql.IDriver;
import org.apache.hadoop.hive.ql.processors.CommandProcessorResponse;

/** What LiveHive says to a Hive 3.1 otherwise than to a Hive 4.1. */
final class Release {
  private Release() {}

  /** Its server could only listen to every machine, and nobody asks it: each session has a metastore of its own. */
  static void serveMetastore(int port, HiveConf conf) {}

  static void run(IDriver driver, String text) throws Exception {
    CommandProcessorResponse answer = driver.run(text);
    if (answer.getResponseCode() != 0) {
      throw new IOException(answer.getErrorMessage(), answer.getException());
    }
  }

  static List<String> told(IMetaStoreClient client, long after) {
    throw new UnsupportedOperationException("its notification log is followed by no test");
  }

  static void stopAfterOnePass(MetaStoreThread role) throws Exception {
    role.setThreadId((int) Thread.currentThread().getId());
    role.init(new AtomicBoolean(true), new AtomicBoolean());
  }
}
