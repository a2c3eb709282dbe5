package io.extendergateway.policy;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.google.protobuf.ByteString;
import java.io.IOException;
import java.util.List;
import java.util.stream.Collectors;

/** What the operator wrote under {@code args:} for this backend, as one JSON object. */
public final class Args {
  static final JsonMapper JSON =
      JsonMapper.builder()
          .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
          .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
          .enable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
          .enable(DeserializationFeature.FAIL_ON_NULL_FOR_PRIMITIVES)
          .enable(DeserializationFeature.FAIL_ON_MISSING_CREATOR_PROPERTIES)
          .disable(DeserializationFeature.ACCEPT_FLOAT_AS_INT)
          .disable(MapperFeature.ALLOW_COERCION_OF_SCALARS)
          .build();

  private final JsonNode object;

  private Args(JsonNode object) {
    this.object = object;
  }

  /** As they come in a request; an {@link ArgsException} for anything but an object or nothing. */
  static Args of(ByteString json) {
    if (isBlank(json)) {
      return new Args(JSON.createObjectNode());
    }
    JsonNode parsed;
    try {
      parsed = JSON.readTree(json.newInput());
    } catch (JsonProcessingException wrong) {
      throw new ArgsException("args: is not valid JSON: " + wrong.getOriginalMessage());
    } catch (IOException wrong) {
      throw new ArgsException("args: is not valid JSON: " + wrong.getMessage());
    }
    if (!parsed.isObject()) {
      throw new ArgsException("args is not a JSON object; write `args: {name: value}`");
    }
    return new Args(parsed);
  }

  private static boolean isBlank(ByteString json) {
    for (ByteString.ByteIterator bytes = json.iterator(); bytes.hasNext(); ) {
      byte octet = bytes.nextByte();
      if (octet != ' ' && octet != '\n' && octet != '\t' && octet != '\r') {
        return false;
      }
    }
    return true;
  }

  /** Whether no argument is given, with {@code {}} and without any args. */
  public boolean isEmpty() {
    return object.isEmpty();
  }

  /** The arguments as they are. Do not modify them. */
  public JsonNode json() {
    return object;
  }

  /**
   * The arguments as a type of the policy. Use a record: each component is required, unless it is
   * an {@link java.util.Optional} or has an {@link ArgDefault}, and an unknown field is a mistake.
   * Components may be texts, numbers, booleans, enums, records, and lists, sets and maps (by text)
   * of these; other classes are read by Jackson. The record's constructor may check values: the
   * text of an {@link IllegalArgumentException} is what the operator reads.
   *
   * @throws ArgsException with the path of the mistake, such as {@code args.rules[2].weight}, and
   *     what is expected
   */
  public <T> T as(Class<T> type) {
    return type.cast(Records.read(object, type, "args"));
  }

  /** For a policy that takes no args. */
  void refuseAny() {
    if (!isEmpty()) {
      throw new ArgsException(
          "this policy takes no args; remove `args` from its entry in the configuration");
    }
  }

  /** A mistake that Jackson found in the value at this path. */
  static ArgsException wrong(String path, JsonMappingException mistake) {
    StringBuilder all = new StringBuilder(path);
    List<JsonMappingException.Reference> steps = mistake.getPath();
    for (JsonMappingException.Reference step : steps) {
      if (step.getFieldName() != null) {
        all.append('.').append(step.getFieldName());
      } else {
        all.append('[').append(step.getIndex()).append(']');
      }
    }
    return new ArgsException(
        all + ": " + mistake.getOriginalMessage().lines().collect(Collectors.joining(" ")));
  }
}
