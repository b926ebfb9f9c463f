import com.google.gson.Gson;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.IMetaStoreClient;
import org.apache.hadoop.hive.metastore.MetaStoreThread;
import org.apache.hadoop.hive.metastore.api.DataOperationType;
import org.apache.hadoop.hive.metastore.api.LockComponent;
import org.apache.hadoop.hive.metastore.api.LockLevel;
import org.apache.hadoop.hive.metastore.api.LockRequest;
import org.apache.hadoop.hive.metastore.api.LockResponse;
import org.apache.hadoop.hive.metastore.api.LockType;
import org.apache.hadoop.hive.metastore.security.HadoopThriftAuthBridge;
import org.apache.hadoop.hive.ql.DriverFactory;
import org.apache.hadoop.hive.ql.IDriver;
import org.apache.hadoop.hive.ql.metadata.Hive;
import org.apache.hadoop.hive.ql.session.SessionState;
import org.apache.hadoop.hive.ql.txn.compactor.Cleaner;
import org.apache.hadoop.hive.ql.txn.compactor.Initiator;
import org.apache.hadoop.hive.ql.txn.compactor.Worker;

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
        HiveMetaStore.startMetaStore(
            port, HadoopThriftAuthBridge.getBridge(), new HiveConf(LiveHive.class), false, new AtomicBoolean());
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
        case "drop":
          client.dropTable(text(request, "database"), text(request, "table"));
          return List.of();
        default:
          throw new IllegalArgumentException("nothing is known of " + what);
      }
    }

    private List<String> sql(String text) throws Exception {
      driver.run(text);
      List<String> rows = new ArrayList<>();
      List<Object> some = new ArrayList<>();
      try {
        while (driver.getResults(some)) {
          some.forEach(row -> rows.add(String.valueOf(row)));
          some.clear();
        }
      } catch (NullPointerException nothing) {
        return rows; // how a Driver says that the statement has no result
      }
      return rows;
    }

    private List<String> set(String key, String value) {
      conf.set(key, value);
      SessionState.get().getConf().set(key, value);
      renew(); // a Driver keeps the settings that it was made with
      return List.of();
    }

    private List<String> pass(MetaStoreThread role) throws Exception {
      role.setConf(new HiveConf(conf));
      role.init(new AtomicBoolean(true)); // stop, as soon as one pass is done
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
}
