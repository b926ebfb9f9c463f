import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.Writer;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.StaticTableOperations;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.data.orc.GenericOrcReader;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.ExpressionParser;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.hadoop.HadoopInputFile;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.orc.ORC;

/**
 * Iceberg's own reader, driven over a pipe: a JSON object a line comes in, one goes out. It reads the table of a metadata
 * file, or one ORC data file by a schema, and answers with a text for each row. tests/judges/iceberg_java.py has its form.
 */
public class IcebergJudge {
  private static final Configuration CONFIGURATION = new Configuration(false);

  public static void main(String[] arguments) throws Exception {
    CONFIGURATION.set("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem");
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    Writer answers = new OutputStreamWriter(System.out, StandardCharsets.UTF_8);
    System.setOut(System.err); // whatever else prints must not stand between the answers
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      answers.write(answer(JsonParser.parseString(line).getAsJsonObject()) + "\n");
      answers.flush();
    }
  }

  private static String answer(JsonObject request) {
    JsonObject answer = new JsonObject();
    try {
      TimeZone.setDefault(TimeZone.getTimeZone(request.get("zone").getAsString()));
      JsonArray rows = new JsonArray();
      try (CloseableIterable<Record> records = read(request)) {
        for (Record record : records) {
          rows.add(text(record));
        }
      }
      answer.add("rows", rows);
    } catch (Throwable error) {
      StringWriter trace = new StringWriter();
      error.printStackTrace(new PrintWriter(trace));
      answer.addProperty("error", trace.toString());
    }
    return new Gson().toJson(answer);
  }

  private static CloseableIterable<Record> read(JsonObject request) {
    if (request.has("metadata")) {
      HadoopFileIO io = new HadoopFileIO(CONFIGURATION);
      String metadata = request.get("metadata").getAsString();
      BaseTable table = new BaseTable(new StaticTableOperations(metadata, io), "table");
      // next to position deletes, records also have their positions
      return CloseableIterable.transform(
          IcebergGenerics.read(table).where(filter(request, table.schema())).build(),
          record -> shorten(record, table.schema()));
    }
    Schema schema = SchemaParser.fromJson(request.get("schema").getAsString());
    return ORC.read(HadoopInputFile.fromLocation(request.get("path").getAsString(), CONFIGURATION))
        .project(schema)
        .filter(filter(request, schema))
        .createReaderFunc(file -> GenericOrcReader.buildReader(schema, file))
        .build();
  }

  private static Record shorten(Record record, Schema schema) {
    Record shorter = GenericRecord.create(schema);
    for (int place = 0; place < schema.columns().size(); place++) {
      shorter.set(place, record.get(place));
    }
    return shorter;
  }

  private static Expression filter(JsonObject request, Schema schema) {
    return request.has("filter")
        ? ExpressionParser.fromJson(request.get("filter").getAsString(), schema)
        : Expressions.alwaysTrue();
  }

  private static String text(Object value) {
    if (value == null) {
      return "NULL";
    }
    if (value instanceof Record) {
      Record record = (Record) value;
      List<String> fields = new ArrayList<>();
      for (int place = 0; place < record.size(); place++) {
        fields.add(text(record.get(place)));
      }
      return "(" + String.join(", ", fields) + ")";
    }
    if (value instanceof List) {
      List<String> items = new ArrayList<>();
      for (Object item : (List<?>) value) {
        items.add(text(item));
      }
      return "[" + String.join(", ", items) + "]";
    }
    if (value instanceof Map) {
      List<String> entries = new ArrayList<>();
      for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
        entries.add(text(entry.getKey()) + ": " + text(entry.getValue()));
      }
      Collections.sort(entries);
      return "{" + String.join(", ", entries) + "}";
    }
    if (value instanceof ByteBuffer) {
      return "bytes " + hex(((ByteBuffer) value).duplicate());
    }
    if (value instanceof LocalDate) {
      return "day " + ((LocalDate) value).toEpochDay();
    }
    if (value instanceof LocalDateTime) {
      return nanos(((LocalDateTime) value).atOffset(ZoneOffset.UTC));
    }
    if (value instanceof OffsetDateTime) {
      return nanos((OffsetDateTime) value);
    }
    if (value instanceof BigDecimal) {
      return ((BigDecimal) value).toPlainString();
    }
    if (value instanceof Float) {
      return "float " + Integer.toHexString(Float.floatToIntBits((Float) value));
    }
    if (value instanceof Double) {
      return "double " + Long.toHexString(Double.doubleToLongBits((Double) value));
    }
    return value instanceof CharSequence
        ? "text " + hex(ByteBuffer.wrap(value.toString().getBytes(StandardCharsets.UTF_8)))
        : value.toString();
  }

  private static String hex(ByteBuffer bytes) {
    StringBuilder hex = new StringBuilder();
    while (bytes.hasRemaining()) {
      hex.append(String.format("%02x", bytes.get()));
    }
    return hex.toString();
  }

  private static String nanos(OffsetDateTime time) {
    OffsetDateTime epoch = OffsetDateTime.of(1970, 1, 1, 0, 0, 0, 0, ZoneOffset.UTC);
    return "second " + ChronoUnit.SECONDS.between(epoch, time.truncatedTo(ChronoUnit.SECONDS)) + " " + time.getNano();
  }
}
