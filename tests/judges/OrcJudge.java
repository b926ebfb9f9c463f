import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.stream.JsonWriter;
import java.io.BufferedReader;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.Writer;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.sql.Timestamp;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.common.type.HiveDecimal;
import org.apache.hadoop.hive.ql.exec.vector.BytesColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DateColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DecimalColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DoubleColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ListColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.MapColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.MultiValuedColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.StructColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.TimestampColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.UnionColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.hadoop.hive.ql.io.sarg.PredicateLeaf;
import org.apache.hadoop.hive.ql.io.sarg.SearchArgument;
import org.apache.hadoop.hive.ql.io.sarg.SearchArgumentFactory;
import org.apache.hadoop.hive.serde2.io.HiveDecimalWritable;
import org.apache.orc.OrcFile;
import org.apache.orc.Reader;
import org.apache.orc.RecordReader;
import org.apache.orc.TypeDescription;

/**
 * ORC's own reader and writer, driven over a pipe: a JSON object a line comes in, one goes out. Both sides write values as
 * tests/judges/orc_java.py describes.
 */
public class OrcJudge {
  private static final Configuration CONFIGURATION = new Configuration(false);
  private static final String INSTANT = "timestamp with local time zone";

  public static void main(String[] arguments) throws Exception {
    CONFIGURATION.set("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem");
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    Writer answers = new OutputStreamWriter(System.out, StandardCharsets.UTF_8);
    System.setOut(System.err); // whatever else prints must not stand between the answers
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      JsonObject request = JsonParser.parseString(line).getAsJsonObject();
      TimeZone.setDefault(TimeZone.getTimeZone(request.get("zone").getAsString()));
      String[] answer = new String[1];
      Thread thread = new Thread(() -> answer[0] = answer(request)); // ORC 1.5 keeps a thread's first zone for its dates
      thread.start();
      thread.join();
      answers.write(answer[0] + "\n");
      answers.flush();
    }
  }

  private static String answer(JsonObject request) {
    try {
      StringWriter answer = new StringWriter();
      serve(request, new JsonWriter(answer));
      return answer.toString();
    } catch (Throwable error) { // some of ORC's own are Errors
      StringWriter trace = new StringWriter();
      error.printStackTrace(new PrintWriter(trace));
      JsonObject failure = new JsonObject();
      failure.addProperty("error", trace.toString());
      return new Gson().toJson(failure);
    }
  }

  private static void serve(JsonObject request, JsonWriter answer) throws IOException {
    boolean utc = request.get("utc").getAsBoolean();
    answer.beginObject();
    if (request.has("rows")) {
      write(request, utc);
    } else {
      read(request, utc, answer);
    }
    answer.endObject();
  }

  /**
   * Answers with all rows, and for each predicate with the numbers of the rows that its reader returned. A row that is not
   * among all rows has to be shown instead: its reader has decoded it wrongly.
   */
  private static void read(JsonObject request, boolean utc, JsonWriter answer) throws IOException {
    OrcFile.ReaderOptions options = OrcFile.readerOptions(CONFIGURATION);
    options.useUTCTimestamp(utc).convertToProlepticGregorian(true);
    Reader reader = OrcFile.createReader(new Path(request.get("path").getAsString()), options);
    try {
      answer.name("schema").value(reader.getSchema().toString());
      if (!request.get("predicates").isJsonArray()) {
        return;
      }
      Map<String, Integer> numbers = new HashMap<>();
      answer.name("rows").beginArray();
      int count = 0;
      for (String row : rows(reader, JsonNull.INSTANCE, utc)) {
        answer.jsonValue(row);
        numbers.put(row, count++);
      }
      answer.endArray().name("answers").beginArray();
      for (JsonElement predicate : request.getAsJsonArray("predicates")) {
        answer.beginArray();
        for (String row : rows(reader, predicate, utc)) {
          Integer number = numbers.get(row);
          answer.jsonValue(number == null ? row : number.toString());
        }
        answer.endArray();
      }
      answer.endArray();
    } finally {
      if (reader instanceof Closeable) { // since ORC 1.6
        ((Closeable) reader).close();
      }
    }
  }

  private static List<String> rows(Reader reader, JsonElement predicate, boolean utc) throws IOException {
    TypeDescription schema = reader.getSchema();
    Reader.Options options = reader.options();
    if (!predicate.isJsonNull()) {
      JsonObject leaf = predicate.getAsJsonObject();
      String column = leaf.get("column").getAsString();
      options.searchArgument(argument(leaf, type(schema, column), utc), new String[] {null, column});
    }
    List<String> found = new ArrayList<>();
    try (RecordReader rows = reader.rows(options)) {
      VectorizedRowBatch batch = schema.createRowBatch();
      while (rows.nextBatch(batch)) {
        for (int row = 0; row < batch.size; row++) {
          StringWriter text = new StringWriter();
          JsonWriter values = new JsonWriter(text);
          values.beginArray();
          for (int column = 0; column < batch.cols.length; column++) {
            show(values, batch.cols[column], schema.getChildren().get(column), row, utc);
          }
          values.endArray();
          found.add(text.toString());
        }
      }
    }
    return found;
  }

  /** Returns the type of a column; in an ACID file its name begins below "row", as Hive's does. */
  private static TypeDescription type(TypeDescription schema, String column) {
    TypeDescription type = schema;
    int row = schema.getFieldNames().indexOf("row");
    if (row == 5 && schema.getFieldNames().get(0).equals("operation")) {
      type = schema.getChildren().get(row);
    }
    for (String name : column.split("\\.")) {
      type = type.getChildren().get(type.getFieldNames().indexOf(name));
    }
    return type;
  }

  private static SearchArgument argument(JsonObject leaf, TypeDescription type, boolean utc) {
    String column = leaf.get("column").getAsString();
    JsonArray texts = leaf.getAsJsonArray("values");
    Object[] values = new Object[texts.size()];
    for (int place = 0; place < values.length; place++) {
      values[place] = literal(type, texts.get(place), utc);
    }
    PredicateLeaf.Type kind = kind(type);
    SearchArgument.Builder builder = SearchArgumentFactory.newBuilder();
    builder = leaf.get("negated").getAsBoolean() ? builder.startNot() : builder.startAnd();
    String operator = leaf.get("operator").getAsString();
    switch (operator) {
      case "=":
        return builder.equals(column, kind, values[0]).end().build();
      case "<=>":
        return builder.nullSafeEquals(column, kind, values[0]).end().build();
      case "<":
        return builder.lessThan(column, kind, values[0]).end().build();
      case "<=":
        return builder.lessThanEquals(column, kind, values[0]).end().build();
      case "in":
        return builder.in(column, kind, values).end().build();
      case "between":
        return builder.between(column, kind, values[0], values[1]).end().build();
      case "is null":
        return builder.isNull(column, kind).end().build();
      default:
        throw new IllegalArgumentException("no operator: " + operator);
    }
  }

  /** Returns the kind of a type's literals, as Hive's own conversion of a condition chooses it. */
  private static PredicateLeaf.Type kind(TypeDescription type) {
    switch (type.getCategory()) {
      case BOOLEAN:
        return PredicateLeaf.Type.BOOLEAN;
      case BYTE:
      case SHORT:
      case INT:
      case LONG:
        return PredicateLeaf.Type.LONG;
      case FLOAT:
      case DOUBLE:
        return PredicateLeaf.Type.FLOAT;
      case DATE:
        return PredicateLeaf.Type.DATE;
      case DECIMAL:
        return PredicateLeaf.Type.DECIMAL;
      case TIMESTAMP:
        return PredicateLeaf.Type.TIMESTAMP;
      default:
        return isInstant(type) ? PredicateLeaf.Type.TIMESTAMP : PredicateLeaf.Type.STRING;
    }
  }

  private static Object literal(TypeDescription type, JsonElement value, boolean utc) {
    switch (kind(type)) {
      case BOOLEAN:
        return value.getAsBoolean();
      case LONG:
        return value.getAsLong();
      case FLOAT:
        return Double.valueOf(value.getAsString());
      case DATE:
        return java.sql.Date.valueOf(LocalDate.parse(value.getAsString()));
      case DECIMAL:
        return new HiveDecimalWritable(HiveDecimal.create(value.getAsString()));
      case TIMESTAMP:
        String text = value.getAsString();
        return isInstant(type) || utc ? timestamp(wallClock(text)) : Timestamp.valueOf(wallClock(text));
      default:
        String string = new String(bytes(value), StandardCharsets.UTF_8);
        boolean isPadded = type.getCategory() == TypeDescription.Category.CHAR;
        return isPadded ? padded(string, type.getMaxLength()) : string;
    }
  }

  private static String padded(String text, int length) {
    StringBuilder padded = new StringBuilder(text);
    for (int missing = length - text.codePointCount(0, text.length()); missing > 0; missing--) {
      padded.append(' ');
    }
    return padded.toString();
  }

  private static boolean isInstant(TypeDescription type) {
    return type.getCategory().getName().equals(INSTANT); // ORC 1.5 does not know it
  }

  private static LocalDateTime wallClock(String text) {
    return LocalDateTime.parse(text.replace("Z", "").replace(' ', 'T'));
  }

  /** Returns the timestamp whose instant shows this wall clock in UTC. */
  private static Timestamp timestamp(LocalDateTime wallClock) {
    Timestamp timestamp = new Timestamp(wallClock.toEpochSecond(ZoneOffset.UTC) * 1000);
    timestamp.setNanos(wallClock.getNano());
    return timestamp;
  }

  private static byte[] bytes(JsonElement text) {
    return text.getAsString().getBytes(StandardCharsets.ISO_8859_1);
  }

  private static void show(JsonWriter answer, ColumnVector vector, TypeDescription type, int at, boolean utc)
      throws IOException {
    int row = vector.isRepeating ? 0 : at;
    if (!vector.noNulls && vector.isNull[row]) {
      answer.nullValue();
      return;
    }
    List<TypeDescription> children = type.getChildren();
    switch (type.getCategory()) {
      case BOOLEAN:
        answer.value(((LongColumnVector) vector).vector[row] != 0);
        break;
      case BYTE:
      case SHORT:
      case INT:
      case LONG:
        answer.value(((LongColumnVector) vector).vector[row]);
        break;
      case DATE:
        answer.value(LocalDate.ofEpochDay(((LongColumnVector) vector).vector[row]).toString());
        break;
      case FLOAT:
      case DOUBLE:
        answer.value(Double.toHexString(((DoubleColumnVector) vector).vector[row]));
        break;
      case STRING:
      case VARCHAR:
      case CHAR:
      case BINARY:
        BytesColumnVector texts = (BytesColumnVector) vector;
        answer.value(
            new String(texts.vector[row], texts.start[row], texts.length[row], StandardCharsets.ISO_8859_1));
        break;
      case DECIMAL:
        answer.value(((DecimalColumnVector) vector).vector[row].toString());
        break;
      case STRUCT:
        answer.beginArray();
        for (int place = 0; place < children.size(); place++) {
          show(answer, ((StructColumnVector) vector).fields[place], children.get(place), row, utc);
        }
        answer.endArray();
        break;
      case LIST:
        ListColumnVector list = (ListColumnVector) vector;
        answer.beginArray();
        for (long place = list.offsets[row]; place < list.offsets[row] + list.lengths[row]; place++) {
          show(answer, list.child, children.get(0), (int) place, utc);
        }
        answer.endArray();
        break;
      case MAP:
        MapColumnVector map = (MapColumnVector) vector;
        answer.beginArray();
        for (long place = map.offsets[row]; place < map.offsets[row] + map.lengths[row]; place++) {
          answer.beginArray();
          show(answer, map.keys, children.get(0), (int) place, utc);
          show(answer, map.values, children.get(1), (int) place, utc);
          answer.endArray();
        }
        answer.endArray();
        break;
      case UNION:
        UnionColumnVector union = (UnionColumnVector) vector;
        int tag = union.tags[row];
        answer.beginArray().value(tag);
        show(answer, union.fields[tag], children.get(tag), row, utc);
        answer.endArray();
        break;
      default: // TIMESTAMP and the type that only newer releases have a category for
        TimestampColumnVector times = (TimestampColumnVector) vector;
        long millis = times.time[row];
        if (isInstant(type)) {
          answer.value(shown(millis, times.nanos[row]) + "Z");
        } else {
          answer.value(shown(utc ? millis : millis + TimeZone.getDefault().getOffset(millis), times.nanos[row]));
        }
    }
  }

  private static String shown(long millis, int nanos) {
    LocalDateTime time = LocalDateTime.ofEpochSecond(Math.floorDiv(millis, 1000L), nanos, ZoneOffset.UTC);
    return String.format(
        "%s %02d:%02d:%02d.%09d", time.toLocalDate(), time.getHour(), time.getMinute(), time.getSecond(), nanos);
  }

  private static void write(JsonObject request, boolean utc) throws IOException {
    Configuration configuration = new Configuration(CONFIGURATION);
    for (Map.Entry<String, JsonElement> setting : request.getAsJsonObject("settings").entrySet()) {
      configuration.set(setting.getKey(), setting.getValue().getAsString());
    }
    TypeDescription schema = TypeDescription.fromString(request.get("schema").getAsString());
    OrcFile.WriterOptions options = OrcFile.writerOptions(configuration).setSchema(schema).overwrite(true);
    options.useUTCTimestamp(utc).setProlepticGregorian(request.get("proleptic").getAsBoolean());
    int stripeRows = request.get("stripe_rows").getAsInt();
    try (org.apache.orc.Writer writer = OrcFile.createWriter(new Path(request.get("path").getAsString()), options)) {
      for (Map.Entry<String, JsonElement> item : request.getAsJsonObject("metadata").entrySet()) {
        writer.addUserMetadata(item.getKey(), ByteBuffer.wrap(bytes(item.getValue())));
      }
      VectorizedRowBatch batch = schema.createRowBatch();
      int inStripe = 0;
      for (JsonElement row : request.getAsJsonArray("rows")) {
        for (int column = 0; column < batch.cols.length; column++) {
          JsonElement value = row.getAsJsonArray().get(column);
          put(batch.cols[column], schema.getChildren().get(column), batch.size, value, utc);
        }
        batch.size++;
        inStripe++;
        boolean endsStripe = inStripe == stripeRows;
        if (endsStripe || batch.size == batch.getMaxSize()) {
          writer.addRowBatch(batch);
          batch.reset();
        }
        if (endsStripe) {
          writer.writeIntermediateFooter();
          inStripe = 0;
        }
      }
      if (batch.size > 0) {
        writer.addRowBatch(batch);
      }
    }
  }

  private static void put(ColumnVector vector, TypeDescription type, int row, JsonElement value, boolean utc) {
    vector.isNull[row] = value.isJsonNull();
    if (vector.isNull[row]) {
      vector.noNulls = false;
      return;
    }
    List<TypeDescription> children = type.getChildren();
    switch (type.getCategory()) {
      case BOOLEAN:
        ((LongColumnVector) vector).vector[row] = value.getAsBoolean() ? 1 : 0;
        break;
      case BYTE:
      case SHORT:
      case INT:
      case LONG:
        ((LongColumnVector) vector).vector[row] = value.getAsLong();
        break;
      case DATE:
        ((DateColumnVector) vector).setUsingProlepticCalendar(true);
        ((DateColumnVector) vector).vector[row] = LocalDate.parse(value.getAsString()).toEpochDay();
        break;
      case FLOAT:
      case DOUBLE:
        ((DoubleColumnVector) vector).vector[row] = Double.parseDouble(value.getAsString());
        break;
      case STRING:
      case VARCHAR:
      case CHAR:
      case BINARY:
        ((BytesColumnVector) vector).setVal(row, bytes(value));
        break;
      case DECIMAL:
        ((DecimalColumnVector) vector).set(row, HiveDecimal.create(value.getAsString(), false));
        break;
      case STRUCT:
        for (int place = 0; place < children.size(); place++) {
          JsonElement field = value.getAsJsonArray().get(place);
          put(((StructColumnVector) vector).fields[place], children.get(place), row, field, utc);
        }
        break;
      case LIST:
        JsonArray items = value.getAsJsonArray();
        ListColumnVector list = (ListColumnVector) vector;
        int firstItem = enlarge(list, row, items.size(), list.child);
        for (int place = 0; place < items.size(); place++) {
          put(list.child, children.get(0), firstItem + place, items.get(place), utc);
        }
        break;
      case MAP:
        JsonArray entries = value.getAsJsonArray();
        MapColumnVector map = (MapColumnVector) vector;
        int firstEntry = enlarge(map, row, entries.size(), map.keys, map.values);
        for (int place = 0; place < entries.size(); place++) {
          JsonArray entry = entries.get(place).getAsJsonArray();
          put(map.keys, children.get(0), firstEntry + place, entry.get(0), utc);
          put(map.values, children.get(1), firstEntry + place, entry.get(1), utc);
        }
        break;
      case UNION:
        UnionColumnVector union = (UnionColumnVector) vector;
        int tag = value.getAsJsonArray().get(0).getAsInt();
        union.tags[row] = tag;
        put(union.fields[tag], children.get(tag), row, value.getAsJsonArray().get(1), utc);
        break;
      default:
        putTime((TimestampColumnVector) vector, isInstant(type) || utc, row, wallClock(value.getAsString()));
    }
  }

  private static void putTime(TimestampColumnVector vector, boolean utc, int row, LocalDateTime wallClock) {
    if (utc) {
      vector.setIsUTC(true);
      vector.setUsingProlepticCalendar(true);
      vector.set(row, timestamp(wallClock));
    } else {
      vector.setUsingProlepticCalendar(false); // ORC's writer changes it, and reset() keeps that
      vector.set(row, Timestamp.valueOf(wallClock));
    }
  }

  /** Returns the place of the first of a row's items. */
  private static int enlarge(MultiValuedColumnVector vector, int row, int size, ColumnVector... children) {
    int first = vector.childCount;
    vector.offsets[row] = first;
    vector.lengths[row] = size;
    vector.childCount += size;
    for (ColumnVector child : children) {
      child.ensureSize(vector.childCount, true);
    }
    return first;
  }
}
