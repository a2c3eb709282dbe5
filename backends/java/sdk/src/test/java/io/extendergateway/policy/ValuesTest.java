package io.extendergateway.policy;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import com.google.protobuf.ByteString;
import org.junit.jupiter.api.Test;

/** Managed fields of raw objects may have whatever Go reads and passes on. */
class ValuesTest {
  @Test
  void anObjectIsReadWhateverItsManagedFieldsHave() {
    ByteString deep = ByteString.copyFromUtf8("[".repeat(9_000) + "]".repeat(9_000));
    ByteString strange =
        ByteString.copyFromUtf8("{\"metadata\":{\"managedFields\":[{\"fieldsV1\":{\"f:")
            .concat(ByteString.copyFrom(new byte[] {(byte) 0xff}))
            .concat(ByteString.copyFromUtf8("\":"))
            .concat(deep)
            .concat(
                ByteString.copyFromUtf8(
                    ",\"n\":" + "9".repeat(5_000) + ",\"e\":1e400}}],\"name\":\"a\"}}"));
    JsonNode node = Values.model(strange, JsonNode.class, "node");
    assertEquals("a", node.at("/metadata/name").asText());
    var model = Values.model(strange, io.fabric8.kubernetes.api.model.Node.class, "node");
    assertEquals("a", model.getMetadata().getName());
  }
}
