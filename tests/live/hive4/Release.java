import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.IMetaStoreClient;
import org.apache.hadoop.hive.metastore.MetaStoreThread;
import org.apache.hadoop.hive.metastore.api.GetAllWriteEventInfoRequest;
import org.apache.hadoop.hive.metastore.api.NotificationEvent;
import org.apache.hadoop.hive.metastore.api.Partition;
import org.apache.hadoop.hive.metastore.api.Table;
import org.apache.hadoop.hive.metastore.api.WriteEventInfo;
import org.apache.hadoop.hive.metastore.messaging.AddPartitionMessage;
import org.apache.hadoop.hive.metastore.messaging.AllocWriteIdMessage;
import org.apache.hadoop.hive.metastore.messaging.MessageBuilder;
import org.apache.hadoop.hive.metastore.messaging.MessageDeserializer;
import org.apache.hadoop.hive.metastore.messaging.MessageFactory;
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

  /**
   * The notification log after an event, as a follower such as Impala's catalog gets it: asked of the metastore, which
   * misses no number, decoded by Hive's own classes, with the writes of each commit.
   */
  static List<String> told(IMetaStoreClient client, long after) throws Exception {
    List<String> told = new ArrayList<>();
    for (NotificationEvent event : client.getNextNotification(after, -1, null).getEvents()) {
      MessageDeserializer decoder = MessageFactory.getInstance(event.getMessageFormat()).getDeserializer();
      String text = event.getMessage();
      String type = event.getEventType();
      List<String> fields = new ArrayList<>(List.of(type));
      if (type.equals("OPEN_TXN")) {
        fields.add(decoder.getOpenTxnMessage(text).getTxnIds().toString());
      } else if (type.equals("ALLOC_WRITE_ID_EVENT")) {
        AllocWriteIdMessage message = decoder.getAllocWriteIdMessage(text);
        fields.addAll(List.of(message.getDB() + "." + message.getTableName(), message.getTxnToWriteIdList().toString()));
      } else if (type.equals("ADD_PARTITION")) {
        AddPartitionMessage message = decoder.getAddPartitionMessage(text);
        fields.add(message.getTableObj().getDbName() + "." + message.getTableObj().getTableName());
        message.getPartitionObjs().forEach(one -> fields.add(one.getValues() + " " + one.getSd().getLocation()));
      } else if (type.equals("ABORT_TXN")) {
        fields.add(decoder.getAbortTxnMessage(text).getTxnId().toString());
      } else if (type.equals("COMMIT_TXN")) {
        long txn = decoder.getCommitTxnMessage(text).getTxnId();
        fields.add(String.valueOf(txn));
        for (WriteEventInfo write : client.getAllWriteEventInfo(new GetAllWriteEventInfoRequest(txn))) {
          Table table = (Table) MessageBuilder.getTObj(write.getTableObj(), Table.class);
          String values = write.getPartitionObj() == null ? "" :
              ((Partition) MessageBuilder.getTObj(write.getPartitionObj(), Partition.class)).getValues().toString();
          fields.add(table.getTableName() + values + " " + write.getFiles());
        }
      }
      told.add(String.join("\t", fields));
    }
    return told;
  }

  static void stopAfterOnePass(MetaStoreThread role) throws Exception {
    role.init(new AtomicBoolean(true));
  }
}
