import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.sql.Timestamp;
import java.util.function.ObjIntConsumer;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.common.type.HiveDecimal;
import org.apache.hadoop.hive.ql.exec.vector.BytesColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DecimalColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DoubleColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.TimestampColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.UnionColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.orc.CompressionKind;
import org.apache.orc.OrcFile;
import org.apache.orc.TypeDescription;
import org.apache.orc.Writer;

/** Writes the sample files: what the tables in tests/fixtures have none of. */
public final class Samples {
  private static final Configuration CONF = new Configuration();
  private static String folder;

  public static void main(String[] args) throws Exception {
    folder = args[0];
    CONF.setBoolean("fs.file.impl.disable.cache", true);
    blooms();
    dates("proleptic", true, CompressionKind.ZSTD);
    dates("hybrid", false, CompressionKind.LZ4);
    texts();
    numbers();
    padded();
    unions();
    old();
  }

  private static OrcFile.WriterOptions options(String type, CompressionKind kind) {
    return OrcFile.writerOptions(CONF).setSchema(TypeDescription.fromString(type)).compress(kind).overwrite(true);
  }

  private static Writer write(String name, OrcFile.WriterOptions options, int rows, ObjIntConsumer<VectorizedRowBatch> fill)
      throws Exception {
    Writer writer = OrcFile.createWriter(new Path(folder, name + ".orc"), options);
    VectorizedRowBatch batch = options.getSchema().createRowBatch();
    for (int row = 0; row < rows; row++) {
      fill.accept(batch, row);
      batch.size++;
      if (batch.size == batch.getMaxSize() || row == rows - 1) {
        writer.addRowBatch(batch);
        batch.reset();
      }
    }
    return writer;
  }

  private static void put(VectorizedRowBatch batch, int column, String text) {
    put(batch, column, text.getBytes(StandardCharsets.UTF_8));
  }

  private static void put(VectorizedRowBatch batch, int column, byte[] text) {
    ((BytesColumnVector) batch.cols[column]).setVal(batch.size, text);
  }

  private static void putNull(VectorizedRowBatch batch, int column) {
    batch.cols[column].noNulls = false;
    batch.cols[column].isNull[batch.size] = true;
  }

  private static void blooms() throws Exception {
    OrcFile.WriterOptions options = options("struct<a:int,b:string,c:decimal(10,2),d:timestamp,e:boolean>", CompressionKind.SNAPPY)
        .rowIndexStride(1000).bloomFilterColumns("a,b,c,d").bloomFilterFpp(0.3);
    write("blooms", options, 1500, (batch, row) -> {
      ((LongColumnVector) batch.cols[0]).vector[batch.size] = row % 7;
      put(batch, 1, "text " + row % 5);
      ((DecimalColumnVector) batch.cols[2]).set(batch.size, HiveDecimal.create(BigDecimal.valueOf(row % 40, 1)));
      ((TimestampColumnVector) batch.cols[3]).set(batch.size, new Timestamp(1000000000000L + row % 3));
      ((LongColumnVector) batch.cols[4]).vector[batch.size] = row % 2;
      if (row % 100 == 7) {
        putNull(batch, 1);
      }
    }).close();
  }

  private static void dates(String name, boolean proleptic, CompressionKind kind) throws Exception {
    int[] days = {0, -141427, -141428, -141430, -141437, -141438, -200000, -719162, -719163, -719500, 2932896};
    String type = "struct<d:date,t:timestamp,i:timestamp with local time zone>";
    OrcFile.WriterOptions options = options(type, kind).setProlepticGregorian(proleptic);
    write(name, options, days.length, (batch, row) -> {
      ((LongColumnVector) batch.cols[0]).vector[batch.size] = days[row];
      for (int column = 1; column < 3; column++) {
        TimestampColumnVector times = (TimestampColumnVector) batch.cols[column];
        times.time[batch.size] = days[row] * 86400000L + row * 1001L;
        times.nanos[batch.size] = (int) Math.floorMod(times.time[batch.size], 1000L) * 1000000 + row * 7;
      }
    }).close();
    write(name + "_each", options.rowIndexStride(1000).setProlepticGregorian(proleptic), 11000, (batch, row) -> {
      ((LongColumnVector) batch.cols[0]).vector[batch.size] = days[row / 1000];
      for (int column = 1; column < 3; column++) {
        TimestampColumnVector times = (TimestampColumnVector) batch.cols[column];
        times.time[batch.size] = days[row / 1000] * 86400000L;
        times.nanos[batch.size] = 0;
      }
    }).close();
  }

  private static void texts() throws Exception {
    byte[][] texts = {"".getBytes(), "\"q\" \\ / \b\f\n\r\t\u0001\u001f\u007f <&='>".getBytes(), "é\u2028\u2029😀".getBytes(StandardCharsets.UTF_8),
        new byte[] {'a', (byte) 0xff, (byte) 0xc3, 'b', (byte) 0xe2, (byte) 0x82}, "x".repeat(1500).getBytes(), "ÿ".repeat(900).getBytes(StandardCharsets.UTF_8)};
    TypeDescription type = TypeDescription.fromString("struct<`a b`:string,`c``d`:varchar(5),é:char(4),`f.g`:binary,h_1:struct<`i:j`:array<int>>>");
    type.findSubtype(1).setAttribute("zeta", "z").setAttribute("alpha", "ä");
    type.findSubtype("h_1").setAttribute("in", "side");
    type.findSubtype(type.getMaximumId()).setAttribute("deep", "er");
    Writer writer = write("texts", options("struct<a:int>", CompressionKind.NONE).setSchema(type), texts.length, (batch, row) -> {
      put(batch, 0, texts[row]);
      put(batch, 1, row == 2 ? texts[row] : "abcdefg".substring(0, row).getBytes());
      put(batch, 2, "ab  cd".substring(0, row));
      put(batch, 3, texts[Math.min(row, 3)]);
      putNull(batch, 4);
    });
    writer.addUserMetadata("note", ByteBuffer.wrap("ünï".getBytes(StandardCharsets.UTF_8)));
    writer.addUserMetadata("bytes", ByteBuffer.wrap(new byte[] {'a', (byte) 0xff, 'b'}));
    writer.close();
  }

  private static void numbers() throws Exception {
    double[] doubles = {0, -0.0, 1, 1e7, 9999999, 1e-3, 9.99e-4, 123456.789, 1e21, 4.9e-324, 1.7976931348623157e308, 1.1, 0.1 + 0.2, 3.4e38,
        Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, 100, -12.5};
    String type = "struct<f:float,g:double,h:double,i:bigint,j:decimal(18,4),k:decimal(38,10),l:smallint,m:boolean,n:map<int,decimal(5,2)>>";
    write("numbers", options(type, CompressionKind.ZLIB), doubles.length, (batch, row) -> {
      ((DoubleColumnVector) batch.cols[0]).vector[batch.size] = doubles[row];
      ((DoubleColumnVector) batch.cols[1]).vector[batch.size] = doubles[row];
      ((DoubleColumnVector) batch.cols[2]).vector[batch.size] = doubles[row % 14];
      ((LongColumnVector) batch.cols[3]).vector[batch.size] = row < 2 ? Long.MIN_VALUE : row;
      String number = row == 0 ? "99999999999999.5" : row == 1 ? "-0.5000" : row == 2 ? "99999999999999.9999" : row + ".50";
      ((DecimalColumnVector) batch.cols[4]).set(batch.size, HiveDecimal.create(number));
      String large = row < 12 ? "9999999999999999999999999999.5" : "0.00";
      ((DecimalColumnVector) batch.cols[5]).set(batch.size, HiveDecimal.create(large));
      putNull(batch, 6);
      ((LongColumnVector) batch.cols[7]).vector[batch.size] = row % 2;
      putNull(batch, 8);
    }).close();
    write("empty", options(type, CompressionKind.ZLIB), 0, (batch, row) -> { }).close();
  }

  private static void padded() throws Exception {
    OrcFile.WriterOptions options = options("struct<a:bigint,b:string>", CompressionKind.NONE)
        .stripeSize(4096).blockSize(12288).blockPadding(true).paddingTolerance(0.9).rowIndexStride(1000);
    Writer writer = OrcFile.createWriter(new Path(folder, "padded.orc"), options);
    VectorizedRowBatch batch = options.getSchema().createRowBatch();
    for (int part = 0; part < 4; part++) {
      batch.reset();
      for (; batch.size < 1000; batch.size++) {
        long value = part * 7919L + batch.size * batch.size * 104729L;
        ((LongColumnVector) batch.cols[0]).vector[batch.size] = value;
        put(batch, 1, "a");
      }
      writer.addRowBatch(batch);
      writer.writeIntermediateFooter();
    }
    writer.close();
  }

  private static void unions() throws Exception {
    write("unions", options("struct<u:uniontype<int,string>,t:tinyint>", CompressionKind.ZLIB), 4, (batch, row) -> {
      UnionColumnVector union = (UnionColumnVector) batch.cols[0];
      union.tags[batch.size] = row % 2;
      ((LongColumnVector) union.fields[0]).vector[batch.size] = row;
      ((BytesColumnVector) union.fields[1]).setVal(batch.size, ("t" + row).getBytes());
      ((LongColumnVector) batch.cols[1]).vector[batch.size] = -row;
    }).close();
  }

  private static void old() throws Exception {
    OrcFile.WriterOptions options = options("struct<a:int,b:string,c:decimal(10,2)>", CompressionKind.ZLIB).version(OrcFile.Version.V_0_11);
    write("old", options, 2000, (batch, row) -> {
      ((LongColumnVector) batch.cols[0]).vector[batch.size] = row;
      put(batch, 1, "k" + row % 3);
      ((DecimalColumnVector) batch.cols[2]).set(batch.size, HiveDecimal.create(BigDecimal.valueOf(row, 2)));
    }).close();
  }
}
