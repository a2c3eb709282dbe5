package io.extendergateway.policy;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.SerializerProvider;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.module.SimpleModule;
import com.fasterxml.jackson.databind.ser.std.StdSerializer;
import com.fasterxml.jackson.databind.ser.std.ToStringSerializer;
import com.google.protobuf.ByteString;
import com.google.protobuf.MessageOrBuilder;
import io.grpc.Status;
import java.io.IOException;
import java.io.OutputStream;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.time.temporal.TemporalAccessor;
import java.time.temporal.TemporalAmount;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.function.Function;

/** Writes what a policy shows. */
final class ShownJson {
  // Jackson quotes NaN and infinity by default, which keeps the JSON valid.
  private static final JsonMapper JSON = JsonMapper.builder().addModule(types()).build();

  private ShownJson() {}

  /** The value as JSON in UTF-8; the writing ends where it exceeds the limit. */
  static ByteString of(Object value) {
    Bounded output = new Bounded();
    try {
      // Jackson's own UTF-8 would escape half of a surrogate pair, which strict parsers refuse;
      // this
      // replaces it.
      JSON.writeValue(new OutputStreamWriter(output, StandardCharsets.UTF_8), value);
    } catch (IOException failure) {
      throw output.isExceeded ? tooLarge() : unwritable(failure);
    }
    return output.json.toByteString();
  }

  private static CallException tooLarge() {
    return CallException.of(
        Status.Code.RESOURCE_EXHAUSTED,
        "the answer has more than %d bytes of JSON, the maximum; show less, or let the query select a part"
            .formatted(Limits.JSON_BYTES));
  }

  private static IllegalStateException unwritable(IOException failure) {
    String text =
        failure instanceof JsonProcessingException wrong
            ? wrong.getOriginalMessage()
            : failure.getMessage();
    return new IllegalStateException("the value cannot be written as JSON: " + text, failure);
  }

  /** What Jackson does not write without further libraries. */
  private static SimpleModule types() {
    return new SimpleModule("extender-policy")
        .addSerializer(
            new Converted<Optional<?>>(Optional.class, optional -> optional.orElse(null)))
        .addSerializer(
            new Converted<OptionalInt>(
                OptionalInt.class, number -> number.isPresent() ? number.getAsInt() : null))
        .addSerializer(
            new Converted<OptionalLong>(
                OptionalLong.class, number -> number.isPresent() ? number.getAsLong() : null))
        .addSerializer(
            new Converted<OptionalDouble>(
                OptionalDouble.class, number -> number.isPresent() ? number.getAsDouble() : null))
        .addSerializer(new ToStringSerializer(TemporalAccessor.class))
        .addSerializer(new ToStringSerializer(TemporalAmount.class))
        .addSerializer(new Converted<MessageOrBuilder>(MessageOrBuilder.class, ShownJson::refused));
  }

  /** As a bean, a message would bring the descriptors of the contract with it. */
  private static Object refused(MessageOrBuilder message) {
    throw new IllegalArgumentException(
        "%s is a protobuf message; return its fields in a record or a map"
            .formatted(message.getClass().getSimpleName()));
  }

  /** Written as another value. */
  private static final class Converted<T> extends StdSerializer<T> {
    private static final long serialVersionUID = 1L;

    private final transient Function<T, Object> conversion;

    Converted(Class<?> type, Function<T, Object> conversion) {
      super(type, false);
      this.conversion = conversion;
    }

    @Override
    public void serialize(T value, JsonGenerator output, SerializerProvider provider)
        throws IOException {
      provider.defaultSerializeValue(conversion.apply(value), output);
    }
  }

  /** Refuses more than the limit, before it is held in memory. */
  private static final class Bounded extends OutputStream {
    private final ByteString.Output json = ByteString.newOutput();
    private boolean isExceeded;

    @Override
    public void write(int octet) throws IOException {
      write(new byte[] {(byte) octet}, 0, 1);
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
      isExceeded |= length > Limits.JSON_BYTES - json.size();
      if (isExceeded) {
        throw new IOException("more than %d bytes".formatted(Limits.JSON_BYTES));
      }
      json.write(bytes, offset, length);
    }
  }
}
