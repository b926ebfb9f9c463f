import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.MetaStoreThread;
import org.apache.hadoop.hive.metastore.security.HadoopThriftAuthBridge;
import org.apache.hadoop.hive.ql.IDriver;

/** What LiveHive says to a Hive 4.1 otherwise than to a Hive 3.1. */
final class Release {
  private Release() {}

  static void serveMetastore(int port, HiveConf conf) throws Throwable {
    HiveMetaStore.startMetaStore(port, HadoopThriftAuthBridge.getBridge(), conf, false, new AtomicBoolean());
  }

  static void run(IDriver driver, String text) throws Exception {
    driver.run(text);
  }

  static void stopAfterOnePass(MetaStoreThread role) throws Exception {
    role.init(new AtomicBoolean(true));
  }
}
