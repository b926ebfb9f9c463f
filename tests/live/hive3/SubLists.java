package org.apache.hadoop.hive.ql.exec;

import java.util.ArrayList;
import java.util.List;
import org.apache.hive.com.esotericsoftware.kryo.Kryo;
import org.apache.hive.com.esotericsoftware.kryo.Serializer;
import org.apache.hive.com.esotericsoftware.kryo.io.Input;
import org.apache.hive.com.esotericsoftware.kryo.io.Output;

/**
 * Stands before Hive's own class of this name, which looks for fields that a part of a list has in Java 8 only: such a part
 * is written as the list that it shows.
 */
class SerializationUtilities$ArrayListSubListSerializer extends Serializer<List<?>> {
  @Override
  public List<?> read(Kryo kryo, Input input, Class<List<?>> type) {
    return kryo.readObject(input, ArrayList.class);
  }

  @Override
  public void write(Kryo kryo, Output output, List<?> part) {
    kryo.writeObject(output, new ArrayList<>(part));
  }

  @Override
  public List<?> copy(Kryo kryo, List<?> part) {
    return kryo.copy(new ArrayList<>(part));
  }
}
