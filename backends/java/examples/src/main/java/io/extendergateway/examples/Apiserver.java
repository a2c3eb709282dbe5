package io.extendergateway.examples;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.extendergateway.policy.BindFailedException;
import io.extendergateway.policy.Tracing;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.Optional;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** The three requests to the apiserver that binding a pod needs. */
final class Apiserver {
  private static final Duration TIMEOUT = Duration.ofSeconds(5);
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int CONFLICT = 409;

  private final URI url;
  private final Optional<Path> token;
  private final HttpClient client;

  /** How creating a Binding ended, if it is known. */
  enum Outcome {
    BOUND,
    /** The apiserver refused it: the pod is not bound to this node. */
    REFUSED
  }

  /** The token is read again for each request, because Kubernetes rotates it. */
  Apiserver(URI url, Optional<Path> token, Optional<Path> authority)
      throws IOException, GeneralSecurityException {
    this.url = url;
    this.token = token;
    HttpClient.Builder builder = HttpClient.newBuilder().connectTimeout(TIMEOUT);
    if (authority.isPresent()) {
      builder.sslContext(trusting(authority.get()));
    }
    client = builder.build();
  }

  private static SSLContext trusting(Path authority) throws IOException, GeneralSecurityException {
    KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
    trusted.load(null, null);
    try (InputStream pem = Files.newInputStream(authority)) {
      int number = 0;
      for (Certificate certificate :
          CertificateFactory.getInstance("X.509").generateCertificates(pem)) {
        trusted.setCertificateEntry("ca-" + number++, certificate);
      }
    }
    TrustManagerFactory factory =
        TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    factory.init(trusted);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(null, factory.getTrustManagers(), null);
    return context;
  }

  /** The value of a node's label. */
  Optional<String> nodeLabel(String node, String key)
      throws BindFailedException, InterruptedException {
    JsonNode labels = get("/api/v1/nodes/" + encoded(node)).path("metadata").path("labels");
    return Optional.ofNullable(labels.path(key).textValue());
  }

  /**
   * Creates the Binding; an exception means that it may exist or not. A pod that is bound to this
   * node already is bound.
   */
  Outcome bind(String namespace, String name, String uid, String node)
      throws BindFailedException, InterruptedException {
    String pod = "/api/v1/namespaces/%s/pods/%s".formatted(encoded(namespace), encoded(name));
    ObjectNode binding = JSON.createObjectNode().put("apiVersion", "v1").put("kind", "Binding");
    // The apiserver refuses a Binding of a pod of this name with another UID.
    binding.putObject("metadata").put("name", name).put("namespace", namespace).put("uid", uid);
    binding.putObject("target").put("apiVersion", "v1").put("kind", "Node").put("name", node);
    HttpResponse<byte[]> response =
        send(
            "creating the Binding",
            request(pod + "/binding")
                .header("Content-Type", "application/json")
                .POST(body(binding))
                .build());
    if (response.statusCode() / 100 == 2) {
      return Outcome.BOUND;
    }
    if (response.statusCode() == CONFLICT) {
      JsonNode existing = get(pod);
      boolean same = existing.path("metadata").path("uid").asText().equals(uid);
      boolean here = existing.path("spec").path("nodeName").asText().equals(node);
      return same && here ? Outcome.BOUND : Outcome.REFUSED;
    }
    if (response.statusCode() / 100 == 4) {
      return Outcome.REFUSED;
    }
    throw new BindFailedException(
        "creating the Binding: the apiserver answered " + response.statusCode());
  }

  private JsonNode get(String path) throws BindFailedException, InterruptedException {
    HttpResponse<byte[]> response = send("GET " + path, request(path).build());
    if (response.statusCode() != 200) {
      throw new BindFailedException(
          "GET %s: the apiserver answered %d".formatted(path, response.statusCode()));
    }
    try {
      return JSON.readTree(response.body());
    } catch (IOException broken) {
      throw new BindFailedException("GET %s: the answer is not JSON".formatted(path), broken);
    }
  }

  private HttpRequest.Builder request(String path) throws BindFailedException {
    HttpRequest.Builder request = HttpRequest.newBuilder(url.resolve(path)).timeout(TIMEOUT);
    Tracing.traceparent().ifPresent(span -> request.header("traceparent", span));
    if (token.isPresent()) {
      try {
        request.header("Authorization", "Bearer " + Files.readString(token.get()).trim());
      } catch (IOException wrong) {
        throw new BindFailedException("cannot read the token: " + wrong.getMessage(), wrong);
      }
    }
    return request;
  }

  private HttpResponse<byte[]> send(String what, HttpRequest request)
      throws BindFailedException, InterruptedException {
    try {
      return client.send(request, BodyHandlers.ofByteArray());
    } catch (IOException failed) {
      throw new BindFailedException(
          "%s: the apiserver cannot be reached: %s".formatted(what, failed), failed);
    }
  }

  private static BodyPublisher body(JsonNode object) {
    return BodyPublishers.ofString(object.toString());
  }

  private static String encoded(String segment) {
    return URLEncoder.encode(segment, StandardCharsets.UTF_8).replace("+", "%20");
  }
}
