import com.google.gson.Gson;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.IMetaStoreClient;
import org.apache.hadoop.hive.metastore.MetaStoreThread;
import org.apache.hadoop.hive.metastore.api.DataOperationType;
import org.apache.hadoop.hive.metastore.api.FieldSchema;
import org.apache.hadoop.hive.metastore.api.LockComponent;
import org.apache.hadoop.hive.metastore.api.LockLevel;
import org.apache.hadoop.hive.metastore.api.LockRequest;
import org.apache.hadoop.hive.metastore.api.LockResponse;
import org.apache.hadoop.hive.metastore.api.LockType;
import org.apache.hadoop.hive.metastore.api.Table;
import org.apache.hadoop.hive.metastore.api.TxnToWriteId;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;
import org.apache.hadoop.hive.ql.DriverFactory;
import org.apache.hadoop.hive.ql.IDriver;
import org.apache.hadoop.hive.ql.io.AcidOutputFormat;
import org.apache.hadoop.hive.ql.io.RecordUpdater;
import org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat;
import org.apache.hadoop.hive.ql.metadata.Hive;
import org.apache.hadoop.hive.ql.session.SessionState;
import org.apache.hadoop.hive.ql.txn.compactor.Cleaner;
import org.apache.hadoop.hive.ql.txn.compactor.Initiator;
import org.apache.hadoop.hive.ql.txn.compactor.Worker;
import org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe;
import org.apache.hadoop.io.Text;

/**
 * Hive driven over a pipe: a JSON object a line comes in, one with the same "id" goes out. Requests of one "session" are
 * answered one after the other, those of different sessions beside each other.
 */
public class LiveHive {
  private static final Gson JSON = new Gson();
  private static final PrintStream ANSWERS = System.out;

  private final Map<String, Session> sessions = new HashMap<>();

  public static void main(String[] arguments) throws Exception {
    System.setOut(System.err); // whatever else prints must not stand between the answers
    listen(Integer.getInteger("live.metastore.port"));
    new LiveHive().serve();
    System.exit(0);
  }

  /** The metastore's own server for others, without the threads that compact and clean by themselves. */
  private static void listen(int port) {
    Thread server = new Thread(() -> {
      try {
        Release.serveMetastore(port, new HiveConf(LiveHive.class));
      } catch (Throwable error) {
        error.printStackTrace();
      }
    }, "metastore");
    server.setDaemon(true);
    server.start();
  }

  private void serve() throws Exception {
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    answer(Map.of("ready", true));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      JsonObject request = JSON.fromJson(line, JsonObject.class);
      sessions.computeIfAbsent(text(request, "session"), Session::new).take(request);
    }
  }

  private static void answer(Map<String, Object> answer) {
    synchronized (ANSWERS) {
      ANSWERS.println(JSON.toJson(answer));
      ANSWERS.flush();
    }
  }

  private static String text(JsonObject request, String name) {
    return request.get(name).getAsString();
  }

  private static long number(JsonObject request, String name) {
    return request.has(name) ? request.get(name).getAsLong() : 0;
  }

  /** A user's session: a thread, a SessionState and a Driver. */
  private static final class Session {
    private final ExecutorService thread;
    private final HiveConf conf = new HiveConf(LiveHive.class);
    private IDriver driver;
    private Batch batch;

    Session(String name) {
      thread = Executors.newSingleThreadExecutor(work -> {
        Thread made = new Thread(work, "session-" + name);
        made.setDaemon(true);
        return made;
      });
    }

    void take(JsonObject request) {
      long id = number(request, "id");
      thread.execute(() -> {
        try {
          open();
          answer(Map.of("id", id, "ok", true, "rows", run(text(request, "do"), request)));
        } catch (Throwable error) {
          answer(Map.of("id", id, "ok", false, "error", error.getClass().getSimpleName() + ": " + error.getMessage()));
          renew(); // after a failed statement a Driver cannot be used again
        }
      });
    }

    private void open() {
      if (driver == null) {
        SessionState.start(new SessionState(conf));
        renew();
      }
    }

    private void renew() {
      if (driver != null) {
        driver.close();
        driver.destroy();
      }
      driver = DriverFactory.newDriver(conf);
      driver.setMaxRows(1_000_000);
    }

    private List<String> run(String what, JsonObject request) throws Exception {
      IMetaStoreClient client = Hive.get(conf).getMSC();
      long txn = number(request, "txn");
      switch (what) {
        case "defaults":
          return defaults();
        case "sql":
          return sql(text(request, "text"));
        case "set":
          return set(text(request, "key"), text(request, "value"));
        case "initiator":
          return pass(new Initiator());
        case "worker":
          return pass(new Worker());
        case "cleaner":
          return pass(new Cleaner());
        case "open":
          return List.of(String.valueOf(client.openTxn("somebody")));
        case "commit":
          client.commitTxn(txn);
          return List.of();
        case "abort":
          client.rollbackTxn(txn);
          return List.of();
        case "lock":
          return of(client.lock(lockRequest(txn, request)));
        case "stream":
          batch = new Batch(conf, client, request);
          return batch.writeIds();
        case "write":
          batch.write(text(request, "text"));
          return List.of();
        case "end":
          batch.end(request.get("commit").getAsBoolean());
          return List.of();
        case "close":
          batch.close(request.get("lost").getAsBoolean());
          return List.of();
        case "told":
          return Release.told(client, number(request, "after"));
        case "drop":
          client.dropTable(text(request, "database"), text(request, "table"));
          return List.of();
        default:
          throw new IllegalArgumentException("nothing is known of " + what);
      }
    }

    private List<String> sql(String text) throws Exception {
      Release.run(driver, text);
      List<String> rows = new ArrayList<>();
      List<Object> some = new ArrayList<>();
      try {
        while (driver.getResults(some)) {
          some.forEach(row -> rows.add(String.valueOf(row)));
          some.clear();
        }
      } catch (NullPointerException nothing) {
        // how a Driver says that the statement has no result
      }
      renew(); // what the statement staged goes with its Driver
      return rows;
    }

    /** The defaults of clients and of the metastore, as key=value; a setting of two names is there under both. */
    private static List<String> defaults() {
      List<String> lines = new ArrayList<>();
      for (HiveConf.ConfVars one : HiveConf.ConfVars.values()) {
        lines.add(one.varname + "=" + one.getDefaultValue());
      }
      for (MetastoreConf.ConfVars one : MetastoreConf.ConfVars.values()) {
        lines.add(one.getVarname() + "=" + one.getDefaultVal());
        lines.add(one.getHiveName() + "=" + one.getDefaultVal());
      }
      return lines;
    }

    private List<String> set(String key, String value) {
      conf.set(key, value);
      SessionState.get().getConf().set(key, value);
      renew(); // a Driver keeps the settings that it was made with
      return List.of();
    }

    private List<String> pass(MetaStoreThread role) throws Exception {
      role.setConf(new HiveConf(conf));
      Release.stopAfterOnePass(role);
      ((Runnable) role).run();
      return List.of();
    }

    private static LockRequest lockRequest(long txn, JsonObject request) {
      LockLevel level = request.has("partition") ? LockLevel.PARTITION : LockLevel.TABLE;
      LockComponent component =
          new LockComponent(LockType.valueOf(text(request, "type")), level, text(request, "database"));
      component.setTablename(text(request, "table"));
      if (level == LockLevel.PARTITION) {
        component.setPartitionname(text(request, "partition"));
      }
      component.setOperationType(DataOperationType.NO_TXN);
      component.setIsTransactional(true);
      LockRequest wanted = new LockRequest(List.of(component), "somebody", "a-host-of-hive");
      wanted.setTxnid(txn);
      return wanted;
    }

    private static List<String> of(LockResponse response) {
      return List.of(String.valueOf(response.getLockid()), response.getState().name());
    }
  }

  /**
   * A batch of transactions that write one file of a partition one after the other, as the connections of
   * hive-streaming do: Hive's own updater writes the file and, for as long as it is open, the side file with its length.
   */
  private static final class Batch {
    private final IMetaStoreClient client;
    private final JsonObject request;
    private final List<TxnToWriteId> transactions;
    private final LazySimpleSerDe lines = new LazySimpleSerDe();
    private final RecordUpdater updater;
    private int current; // its lock is taken with its first row

    Batch(HiveConf given, IMetaStoreClient client, JsonObject request) throws Exception {
      this.client = client;
      this.request = request;
      String database = text(request, "database");
      Table table = client.getTable(database, text(request, "table"));
      List<Long> opened = client.openTxns("somebody", request.get("transactions").getAsInt()).getTxn_ids();
      transactions = client.allocateTableWriteIdsBatch(opened, database, table.getTableName());
      HiveConf conf = new HiveConf(given);
      conf.setBoolVar(HiveConf.ConfVars.HIVE_ORC_DELTA_STREAMING_OPTIMIZATIONS_ENABLED, true);
      lines.initialize(conf, columns(table), null);
      RawLocalFileSystem files = new RawLocalFileSystem(); // the usual one keeps bytes back for its checksums at a flush
      files.initialize(new Path("file:///").toUri(), conf);
      Properties properties = new Properties();
      properties.putAll(table.getParameters());
      String location =
          client.getPartition(database, table.getTableName(), text(request, "partition")).getSd().getLocation();
      updater = new OrcOutputFormat().getRecordUpdater(new Path(location), new AcidOutputFormat.Options(conf)
          .filesystem(files)
          .inspector(lines.getObjectInspector())
          .bucket(0)
          .tableProperties(properties)
          .minimumWriteId(transactions.get(0).getWriteId())
          .maximumWriteId(transactions.get(transactions.size() - 1).getWriteId())
          .statementId(-1)
          .finalDestination(new Path(location)));
    }

    private static Properties columns(Table table) {
      Properties properties = new Properties();
      List<FieldSchema> columns = table.getSd().getCols();
      properties.setProperty("columns", String.join(",", columns.stream().map(FieldSchema::getName).toList()));
      properties.setProperty("columns.types", String.join(":", columns.stream().map(FieldSchema::getType).toList()));
      properties.setProperty("field.delim", ",");
      return properties;
    }

    List<String> writeIds() {
      return transactions.stream().map(one -> String.valueOf(one.getWriteId())).toList();
    }

    /** Rows, a line each, in the current transaction. */
    void write(String rows) throws Exception {
      LockRequest wanted = Session.lockRequest(transactions.get(current).getTxnId(), request);
      wanted.getComponent().forEach(component -> component.setOperationType(DataOperationType.INSERT));
      client.lock(wanted);
      for (String row : rows.split("\n")) {
        updater.insert(transactions.get(current).getWriteId(), lines.deserialize(new Text(row)));
      }
    }

    void end(boolean commit) throws Exception {
      long txn = transactions.get(current++).getTxnId();
      if (commit) {
        updater.flush();
        client.commitTxn(txn);
      } else {
        client.rollbackTxn(txn);
      }
    }

    /** What has not ended is aborted; of a writer that is lost nobody closes the file. */
    void close(boolean lost) throws Exception {
      while (current < transactions.size()) {
        end(false);
      }
      if (!lost) {
        updater.close(false);
      }
    }
  }

  /** Hadoop's local files, whose permissions Java sets: without Hadoop's native library a process is started for each. */
  public static class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
      super(new Raw());
    }

    private static class Raw extends RawLocalFileSystem {
      @Override
      public void setPermission(Path path, FsPermission permission) throws IOException {
        String text = permission.getUserAction().SYMBOL + permission.getGroupAction().SYMBOL
            + permission.getOtherAction().SYMBOL;
        Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(text));
      }
    }
  }
}
