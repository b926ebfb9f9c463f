import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.stream.JsonWriter;
import io.airlift.slice.Slice;
import io.airlift.slice.Slices;
import io.trino.memory.context.AggregatedMemoryContext;
import io.trino.orc.FileOrcDataSource;
import io.trino.orc.OrcColumn;
import io.trino.orc.OrcPredicate;
import io.trino.orc.OrcReader;
import io.trino.orc.OrcReaderOptions;
import io.trino.orc.OrcRecordReader;
import io.trino.orc.TupleDomainOrcPredicate;
import io.trino.orc.metadata.OrcType;
import io.trino.spi.block.Block;
import io.trino.spi.block.SqlMap;
import io.trino.spi.block.SqlRow;
import io.trino.spi.connector.SourcePage;
import io.trino.spi.predicate.Domain;
import io.trino.spi.predicate.Range;
import io.trino.spi.predicate.ValueSet;
import io.trino.spi.type.ArrayType;
import io.trino.spi.type.BigintType;
import io.trino.spi.type.BooleanType;
import io.trino.spi.type.CharType;
import io.trino.spi.type.DateType;
import io.trino.spi.type.DecimalType;
import io.trino.spi.type.Decimals;
import io.trino.spi.type.DoubleType;
import io.trino.spi.type.Int128;
import io.trino.spi.type.IntegerType;
import io.trino.spi.type.LongTimestamp;
import io.trino.spi.type.LongTimestampWithTimeZone;
import io.trino.spi.type.MapType;
import io.trino.spi.type.RealType;
import io.trino.spi.type.RowType;
import io.trino.spi.type.SmallintType;
import io.trino.spi.type.TimeZoneKey;
import io.trino.spi.type.TimestampType;
import io.trino.spi.type.TimestampWithTimeZoneType;
import io.trino.spi.type.TinyintType;
import io.trino.spi.type.Type;
import io.trino.spi.type.TypeOperators;
import io.trino.spi.type.VarbinaryType;
import io.trino.spi.type.VarcharType;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.Writer;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.joda.time.DateTimeZone;

/**
 * Trino's own reader of ORC, driven over a pipe as OrcJudge is: a JSON object a line comes in, one goes out. It reads as
 * Trino's Hive connector does with bloom filters on and timestamps of nanoseconds.
 */
public class TrinoJudge {
  private static final TypeOperators OPERATORS = new TypeOperators();
  private static final OrcReaderOptions OPTIONS = new OrcReaderOptions().withBloomFiltersEnabled(true);

  public static void main(String[] arguments) throws IOException {
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    Writer answers = new OutputStreamWriter(System.out, StandardCharsets.UTF_8);
    System.setOut(System.err); // whatever else prints must not stand between the answers
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      StringWriter answer = new StringWriter();
      try {
        read(JsonParser.parseString(line).getAsJsonObject(), new JsonWriter(answer));
      } catch (Throwable error) {
        StringWriter trace = new StringWriter();
        error.printStackTrace(new PrintWriter(trace));
        JsonObject failure = new JsonObject();
        failure.addProperty("error", trace.toString());
        answer = new StringWriter();
        answer.write(new Gson().toJson(failure));
      }
      answers.write(answer + "\n");
      answers.flush();
    }
  }

  /** Answers with all rows, and for each predicate with the numbers of the rows, or the rows, that its reader returned. */
  private static void read(JsonObject request, JsonWriter answer) throws IOException {
    File file = new File(request.get("path").getAsString());
    Map<String, Integer> numbers = new HashMap<>();
    answer.beginObject().name("rows").beginArray();
    int count = 0;
    for (String row : rows(file, JsonNull.INSTANCE)) {
      answer.jsonValue(row);
      numbers.put(row, count++);
    }
    answer.endArray().name("answers").beginArray();
    for (JsonElement predicate : request.getAsJsonArray("predicates")) {
      answer.beginArray();
      for (String row : rows(file, predicate)) {
        Integer number = numbers.get(row);
        answer.jsonValue(number == null ? row : number.toString());
      }
      answer.endArray();
    }
    answer.endArray().endObject();
  }

  private static List<String> rows(File file, JsonElement predicate) throws IOException {
    List<String> found = new ArrayList<>();
    Optional<OrcReader> opened = OrcReader.createOrcReader(new FileOrcDataSource(file, OPTIONS), OPTIONS);
    if (opened.isEmpty()) {
      return found; // a file of 0 bytes
    }
    List<OrcColumn> columns = opened.get().getRootColumn().getNestedColumns();
    List<Type> types = columns.stream().map(TrinoJudge::type).toList();
    OrcPredicate condition =
        predicate.isJsonNull() ? OrcPredicate.TRUE : condition(predicate.getAsJsonObject(), columns);
    try (OrcRecordReader reader =
        opened
            .get()
            .createRecordReader(
                columns,
                types,
                false,
                condition,
                DateTimeZone.UTC,
                AggregatedMemoryContext.newSimpleAggregatedMemoryContext(),
                OrcReader.INITIAL_BATCH_SIZE,
                RuntimeException::new)) {
      for (SourcePage page = reader.nextPage(); page != null; page = reader.nextPage()) {
        for (int row = 0; row < page.getPositionCount(); row++) {
          StringWriter text = new StringWriter();
          JsonWriter values = new JsonWriter(text);
          values.beginArray();
          for (int column = 0; column < types.size(); column++) {
            show(values, types.get(column), page.getBlock(column), row);
          }
          values.endArray();
          found.add(text.toString());
        }
      }
    }
    return found;
  }

  /** Returns the type that Trino's Hive connector gives a column; a union is a row of its tag and its alternatives. */
  private static Type type(OrcColumn column) {
    OrcType orc = column.getColumnType();
    List<Type> inner = column.getNestedColumns().stream().map(TrinoJudge::type).toList();
    return switch (orc.getOrcTypeKind()) {
      case BOOLEAN -> BooleanType.BOOLEAN;
      case BYTE -> TinyintType.TINYINT;
      case SHORT -> SmallintType.SMALLINT;
      case INT -> IntegerType.INTEGER;
      case LONG -> BigintType.BIGINT;
      case FLOAT -> RealType.REAL;
      case DOUBLE -> DoubleType.DOUBLE;
      case STRING -> VarcharType.VARCHAR;
      case VARCHAR -> VarcharType.createVarcharType(orc.getLength().get());
      case CHAR -> CharType.createCharType(orc.getLength().get());
      case BINARY -> VarbinaryType.VARBINARY;
      case DATE -> DateType.DATE;
      case DECIMAL -> DecimalType.createDecimalType(orc.getPrecision().get(), orc.getScale().get());
      case TIMESTAMP -> TimestampType.TIMESTAMP_NANOS;
      case TIMESTAMP_INSTANT -> TimestampWithTimeZoneType.TIMESTAMP_TZ_NANOS;
      case LIST -> new ArrayType(inner.get(0));
      case MAP -> new MapType(inner.get(0), inner.get(1), OPERATORS);
      case STRUCT -> row(orc.getFieldNames(), inner);
      case UNION -> union(inner);
    };
  }

  private static RowType row(List<String> names, List<Type> types) {
    List<RowType.Field> fields = new ArrayList<>();
    for (int place = 0; place < types.size(); place++) {
      fields.add(RowType.field(names.get(place), types.get(place)));
    }
    return RowType.from(fields);
  }

  private static RowType union(List<Type> alternatives) {
    List<RowType.Field> fields = new ArrayList<>();
    fields.add(RowType.field("tag", TinyintType.TINYINT));
    for (Type alternative : alternatives) {
      fields.add(RowType.field("field" + (fields.size() - 1), alternative));
    }
    return RowType.from(fields);
  }

  private static OrcPredicate condition(JsonObject leaf, List<OrcColumn> columns) {
    OrcColumn column = null;
    boolean isAcid = columns.size() == 6 && columns.get(0).getColumnName().equals("operation");
    List<OrcColumn> level = isAcid ? columns.get(5).getNestedColumns() : columns;
    for (String name : leaf.get("column").getAsString().split("\\.")) {
      column = level.stream().filter(child -> child.getColumnName().equals(name)).findFirst().orElseThrow();
      level = column.getNestedColumns();
    }
    return TupleDomainOrcPredicate.builder()
        .setBloomFiltersEnabled(true)
        .addColumn(column.getColumnId(), domain(leaf, type(column)))
        .build();
  }

  /** Returns the values that Trino's planner pushes down for a condition; NULL is in none but IS NULL's. */
  private static Domain domain(JsonObject leaf, Type type) {
    String operator = leaf.get("operator").getAsString();
    boolean negated = leaf.get("negated").getAsBoolean();
    if (operator.equals("is null")) {
      return negated ? Domain.notNull(type) : Domain.onlyNull(type);
    }
    if (negated && (operator.equals("<=>") || type == RealType.REAL || type == DoubleType.DOUBLE)) {
      return Domain.all(type); // NULL is distinct from any value, and NaN from all others
    }
    JsonArray texts = leaf.getAsJsonArray("values");
    List<Object> values = new ArrayList<>();
    for (JsonElement text : texts) {
      values.add(literal(type, text));
    }
    Range range =
        switch (operator) {
          case "<" -> Range.lessThan(type, values.get(0));
          case "<=" -> Range.lessThanOrEqual(type, values.get(0));
          default -> Range.equal(type, values.get(0));
        };
    ValueSet matching = ValueSet.ofRanges(range);
    if (operator.equals("between")) {
      boolean isEmpty = Range.lessThan(type, values.get(0)).overlaps(Range.equal(type, values.get(1)));
      matching =
          isEmpty
              ? ValueSet.none(type)
              : ValueSet.ofRanges(Range.range(type, values.get(0), true, values.get(1), true));
    } else if (operator.equals("in")) {
      matching = ValueSet.copyOf(type, values);
    }
    return Domain.create(negated ? matching.complement() : matching, false);
  }

  private static Object literal(Type type, JsonElement value) {
    if (type == BooleanType.BOOLEAN) {
      return value.getAsBoolean();
    }
    if (type == RealType.REAL) {
      return (long) Float.floatToRawIntBits(Float.parseFloat(value.getAsString()));
    }
    if (type == DoubleType.DOUBLE) {
      return Double.parseDouble(value.getAsString());
    }
    if (type == DateType.DATE) {
      return LocalDate.parse(value.getAsString()).toEpochDay();
    }
    if (type instanceof DecimalType decimal) {
      BigInteger unscaled = new BigDecimal(value.getAsString()).setScale(decimal.getScale()).unscaledValue();
      return decimal.isShort() ? (Object) unscaled.longValueExact() : Int128.valueOf(unscaled);
    }
    if (type instanceof TimestampType || type instanceof TimestampWithTimeZoneType) {
      String text = value.getAsString().replace("Z", "").replace(' ', 'T');
      LocalDateTime time = LocalDateTime.parse(text);
      long seconds = time.toEpochSecond(ZoneOffset.UTC);
      int nanos = time.getNano();
      if (type instanceof TimestampType) {
        return new LongTimestamp(seconds * 1_000_000 + nanos / 1000, nanos % 1000 * 1000);
      }
      return LongTimestampWithTimeZone.fromEpochSecondsAndFraction(seconds, nanos * 1000L, TimeZoneKey.UTC_KEY);
    }
    if (type instanceof VarcharType || type instanceof VarbinaryType) {
      return bytes(value);
    }
    if (type instanceof CharType) {
      return Slices.utf8Slice(bytes(value).toStringUtf8().replaceAll(" +$", ""));
    }
    return value.getAsLong();
  }

  private static Slice bytes(JsonElement text) {
    return Slices.wrappedBuffer(text.getAsString().getBytes(StandardCharsets.ISO_8859_1));
  }

  private static void show(JsonWriter answer, Type type, Block block, int at) throws IOException {
    if (block.isNull(at)) {
      answer.nullValue();
    } else if (type == BooleanType.BOOLEAN) {
      answer.value(BooleanType.BOOLEAN.getBoolean(block, at));
    } else if (type == RealType.REAL) {
      answer.value(Double.toHexString(RealType.REAL.getFloat(block, at)));
    } else if (type == DoubleType.DOUBLE) {
      answer.value(Double.toHexString(DoubleType.DOUBLE.getDouble(block, at)));
    } else if (type == DateType.DATE) {
      answer.value(LocalDate.ofEpochDay(DateType.DATE.getInt(block, at)).toString());
    } else if (type instanceof DecimalType decimal) {
      answer.value(Decimals.readBigDecimal(decimal, block, at).toPlainString());
    } else if (type instanceof TimestampType) {
      LongTimestamp time = (LongTimestamp) type.getObject(block, at);
      long micros = time.getEpochMicros();
      int nanos = (int) (Math.floorMod(micros, 1_000_000L) * 1000 + time.getPicosOfMicro() / 1000);
      answer.value(shown(Math.floorDiv(micros, 1_000_000L), nanos));
    } else if (type instanceof TimestampWithTimeZoneType) {
      LongTimestampWithTimeZone time = (LongTimestampWithTimeZone) type.getObject(block, at);
      long millis = time.getEpochMillis();
      int nanos = (int) (Math.floorMod(millis, 1000L) * 1_000_000 + time.getPicosOfMilli() / 1000);
      answer.value(shown(Math.floorDiv(millis, 1000L), nanos) + "Z");
    } else if (type instanceof VarcharType || type instanceof VarbinaryType || type instanceof CharType) {
      answer.value(type.getSlice(block, at).toString(StandardCharsets.ISO_8859_1));
    } else if (type instanceof ArrayType array) {
      Block items = array.getObject(block, at);
      answer.beginArray();
      for (int place = 0; place < items.getPositionCount(); place++) {
        show(answer, array.getElementType(), items, place);
      }
      answer.endArray();
    } else if (type instanceof MapType map) {
      showMap(answer, map, map.getObject(block, at));
    } else if (type instanceof RowType row) {
      showRow(answer, row, row.getObject(block, at));
    } else {
      answer.value(type.getLong(block, at));
    }
  }

  private static void showMap(JsonWriter answer, MapType type, SqlMap map) throws IOException {
    answer.beginArray();
    for (int entry = 0; entry < map.getSize(); entry++) {
      answer.beginArray();
      show(answer, type.getKeyType(), map.getRawKeyBlock(), map.getRawOffset() + entry);
      show(answer, type.getValueType(), map.getRawValueBlock(), map.getRawOffset() + entry);
      answer.endArray();
    }
    answer.endArray();
  }

  private static void showRow(JsonWriter answer, RowType type, SqlRow row) throws IOException {
    List<RowType.Field> fields = type.getFields();
    answer.beginArray();
    int first = 0;
    int end = fields.size();
    if (fields.get(0).getName().orElse("").equals("tag")) { // a union has the value of its tag alone
      byte tag = TinyintType.TINYINT.getByte(row.getRawFieldBlock(0), row.getRawIndex());
      answer.value(tag);
      first = tag + 1;
      end = first + 1;
    }
    for (int place = first; place < end; place++) {
      show(answer, fields.get(place).getType(), row.getRawFieldBlock(place), row.getRawIndex());
    }
    answer.endArray();
  }

  private static String shown(long seconds, int nanos) {
    LocalDateTime time = LocalDateTime.ofEpochSecond(seconds, nanos, ZoneOffset.UTC);
    return String.format(
        "%s %02d:%02d:%02d.%09d", time.toLocalDate(), time.getHour(), time.getMinute(), time.getSecond(), nanos);
  }
}
