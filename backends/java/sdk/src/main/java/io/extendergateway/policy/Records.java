package io.extendergateway.policy;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;

/**
 * Reads JSON into records of a policy. Jackson alone cannot tell a required component from an
 * optional one, and its texts name Java classes, which mean nothing to operators.
 */
final class Records {
  private static final Map<Class<?>, BigInteger[]> INTEGERS =
      Map.of(
          byte.class, range(Byte.MIN_VALUE, Byte.MAX_VALUE),
          short.class, range(Short.MIN_VALUE, Short.MAX_VALUE),
          int.class, range(Integer.MIN_VALUE, Integer.MAX_VALUE),
          long.class, range(Long.MIN_VALUE, Long.MAX_VALUE));

  private static final Map<Class<?>, Class<?>> BOXED =
      Map.of(
          Byte.class, byte.class,
          Short.class, short.class,
          Integer.class, int.class,
          Long.class, long.class,
          Boolean.class, boolean.class,
          Double.class, double.class,
          Float.class, float.class);

  private Records() {}

  private static BigInteger[] range(long least, long largest) {
    return new BigInteger[] {BigInteger.valueOf(least), BigInteger.valueOf(largest)};
  }

  /** The value at this path. */
  static Object read(JsonNode json, Type type, String path) {
    if (type instanceof ParameterizedType generic) {
      return readGeneric(json, generic, path);
    }
    if (!(type instanceof Class<?> given)) {
      return byJackson(json, type, path);
    }
    Class<?> plain = BOXED.getOrDefault(given, given);
    if (plain.isRecord()) {
      return readRecord(json, plain, path);
    }
    if (plain == String.class) {
      return expect(json, json.isTextual(), "a string", path).textValue();
    }
    if (plain == boolean.class) {
      return expect(json, json.isBoolean(), "a boolean", path).booleanValue();
    }
    if (plain == double.class) {
      return expect(json, json.isNumber(), "a number", path).doubleValue();
    }
    if (plain == float.class) {
      return expect(json, json.isNumber(), "a number", path).floatValue();
    }
    if (plain == BigDecimal.class) {
      return expect(json, json.isNumber(), "a number", path).decimalValue();
    }
    if (plain == BigInteger.class) {
      return expect(json, json.isIntegralNumber(), "an integer", path).bigIntegerValue();
    }
    if (INTEGERS.containsKey(plain)) {
      return readInteger(json, plain, path);
    }
    if (plain.isEnum()) {
      return readEnum(json, plain, path);
    }
    return byJackson(json, type, path);
  }

  private static Object readGeneric(JsonNode json, ParameterizedType type, String path) {
    Type[] of = type.getActualTypeArguments();
    if (type.getRawType() == Optional.class) {
      return json.isNull() ? Optional.empty() : Optional.of(read(json, of[0], path));
    }
    if (type.getRawType() == List.class || type.getRawType() == Collection.class) {
      return Collections.unmodifiableList(elements(json, of[0], path));
    }
    if (type.getRawType() == Set.class) {
      return Collections.unmodifiableSet(new LinkedHashSet<>(elements(json, of[0], path)));
    }
    if (type.getRawType() == Map.class && of[0] == String.class) {
      expect(json, json.isObject(), "a map", path);
      Map<String, Object> map = new LinkedHashMap<>();
      for (Map.Entry<String, JsonNode> entry : json.properties()) {
        String at = path + "." + entry.getKey();
        map.put(entry.getKey(), read(entry.getValue(), of[1], at));
      }
      return Collections.unmodifiableMap(map);
    }
    return byJackson(json, type, path);
  }

  private static List<Object> elements(JsonNode json, Type type, String path) {
    expect(json, json.isArray(), "a list", path);
    List<Object> elements = new ArrayList<>(json.size());
    for (int at = 0; at < json.size(); at++) {
      elements.add(read(json.get(at), type, path + "[" + at + "]"));
    }
    return elements;
  }

  private static Object readRecord(JsonNode json, Class<?> type, String path) {
    expect(json, json.isObject(), "an object", path);
    RecordComponent[] components = type.getRecordComponents();
    List<String> names = Stream.of(components).map(RecordComponent::getName).toList();
    for (Iterator<String> given = json.fieldNames(); given.hasNext(); ) {
      String name = given.next();
      if (!names.contains(name)) {
        throw new ArgsException(
            "%s.%s: unknown field `%s`, %s".formatted(path, name, name, expected(names)));
      }
    }
    Object[] values = new Object[components.length];
    for (int at = 0; at < components.length; at++) {
      values[at] = component(json, components[at], path);
    }
    return construct(type, components, values, path);
  }

  private static Object component(JsonNode json, RecordComponent component, String path) {
    JsonNode value = json.get(component.getName());
    String at = path + "." + component.getName();
    if (value != null) {
      Object read = read(value, component.getGenericType(), at);
      checkRange(value, component.getAnnotation(ArgRange.class), at);
      return read;
    }
    ArgDefault byDefault = component.getAnnotation(ArgDefault.class);
    if (byDefault != null) {
      return read(parse(byDefault.value(), at), component.getGenericType(), at);
    }
    if (component.getType() == Optional.class) {
      return Optional.empty();
    }
    throw new ArgsException("%s: missing field `%s`".formatted(path, component.getName()));
  }

  private static void checkRange(JsonNode given, ArgRange range, String path) {
    if (range != null
        && given.isNumber()
        && (given.decimalValue().compareTo(BigDecimal.valueOf(range.min())) < 0
            || given.decimalValue().compareTo(BigDecimal.valueOf(range.max())) > 0)) {
      String expected = range.min() + " to " + range.max();
      if (range.max() == Long.MAX_VALUE) {
        expected = "at least " + range.min();
      } else if (range.min() == Long.MIN_VALUE) {
        expected = "at most " + range.max();
      }
      throw new ArgsException(
          "%s: invalid value: %s, expected %s".formatted(path, describe(given), expected));
    }
  }

  private static JsonNode parse(String json, String path) {
    try {
      return Args.JSON.readTree(json);
    } catch (JsonProcessingException wrong) {
      throw new IllegalStateException(
          "the @ArgDefault of %s is not JSON: %s".formatted(path, json), wrong);
    }
  }

  private static Object construct(
      Class<?> type, RecordComponent[] components, Object[] values, String path) {
    Class<?>[] types = Stream.of(components).map(RecordComponent::getType).toArray(Class<?>[]::new);
    try {
      Constructor<?> constructor = type.getDeclaredConstructor(types);
      constructor.setAccessible(true);
      return constructor.newInstance(values);
    } catch (InvocationTargetException thrown) {
      if (thrown.getCause() instanceof ArgsException wrong) {
        throw wrong;
      }
      if (thrown.getCause() instanceof IllegalArgumentException wrong) {
        throw new ArgsException(path + ": " + wrong.getMessage());
      }
      throw new IllegalStateException(
          "the constructor of %s failed".formatted(type.getName()), thrown.getCause());
    } catch (ReflectiveOperationException wrong) {
      throw new IllegalStateException("%s cannot be constructed".formatted(type.getName()), wrong);
    }
  }

  private static Object readInteger(JsonNode json, Class<?> type, String path) {
    BigInteger value = expect(json, json.isIntegralNumber(), "an integer", path).bigIntegerValue();
    BigInteger[] range = INTEGERS.get(type);
    if (value.compareTo(range[0]) < 0 || value.compareTo(range[1]) > 0) {
      throw new ArgsException(
          "%s: invalid value: integer `%s`, expected %s to %s"
              .formatted(path, value, range[0], range[1]));
    }
    if (type == long.class) {
      return value.longValue();
    }
    if (type == int.class) {
      return value.intValue();
    }
    return type == short.class ? (Object) value.shortValue() : (Object) value.byteValue();
  }

  private static Object readEnum(JsonNode json, Class<?> type, String path) {
    String name = expect(json, json.isTextual(), "a string", path).textValue();
    List<String> names = new ArrayList<>();
    for (Object constant : type.getEnumConstants()) {
      String known = ((Enum<?>) constant).name();
      if (known.equals(name)) {
        return constant;
      }
      names.add(known);
    }
    throw new ArgsException("%s: unknown variant `%s`, %s".formatted(path, name, expected(names)));
  }

  private static Object byJackson(JsonNode json, Type type, String path) {
    try {
      return Args.JSON.readerFor(Args.JSON.constructType(type)).readValue(json);
    } catch (JsonMappingException wrong) {
      throw Args.wrong(path, wrong);
    } catch (java.io.IOException wrong) {
      throw new ArgsException(path + ": " + wrong.getMessage());
    }
  }

  private static JsonNode expect(JsonNode json, boolean holds, String what, String path) {
    if (holds) {
      return json;
    }
    throw new ArgsException(
        "%s: invalid type: %s, expected %s".formatted(path, describe(json), what));
  }

  private static String describe(JsonNode json) {
    return switch (json.getNodeType()) {
      case STRING -> "string \"" + Utf8.cut(json.textValue(), 64) + "\"";
      case BOOLEAN -> "boolean `" + json.booleanValue() + "`";
      case NUMBER ->
          (json.isIntegralNumber() ? "integer `" : "floating point `")
              + Utf8.cut(json.asText(), 64)
              + "`";
      case ARRAY -> "list";
      case OBJECT -> "object";
      default -> "null";
    };
  }

  private static String expected(List<String> names) {
    List<String> quoted = names.stream().map(name -> "`" + name + "`").toList();
    return switch (quoted.size()) {
      case 0 -> "there are no fields";
      case 1, 2 -> "expected " + String.join(" or ", quoted);
      default -> "expected one of " + String.join(", ", quoted);
    };
  }
}
