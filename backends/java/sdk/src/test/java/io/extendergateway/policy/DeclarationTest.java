package io.extendergateway.policy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.extendergateway.policy.v1beta1.Effects;
import io.extendergateway.policy.v1beta1.MapReads;
import io.extendergateway.policy.v1beta1.NodeReads;
import io.extendergateway.policy.v1beta1.NodeTableServiceGrpc;
import io.extendergateway.policy.v1beta1.PodReads;
import java.io.IOException;
import java.net.URL;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Mistakes of declarations, and their canonical form. */
class DeclarationTest {
  private static Info pure() {
    return Info.of("p", "1").filters(Verb.perNode().pure());
  }

  @Test
  void aPolicyWithoutAVerbIsRefused() {
    DeclarationException mistakes =
        assertThrows(DeclarationException.class, () -> new Declaration(Info.of("p", "1")));
    assertTrue(mistakes.getMessage().contains("no verb is declared; call Info.filters"));
  }

  @Test
  void aReversedScaleIsRefused() {
    var mistake = assertThrows(DeclarationException.class, () -> Scale.between(10, 0));
    String text = "Scale.between(10, 0): the least score is larger than the largest";
    assertEquals("invalid policy info: " + text, mistake.getMessage());
  }

  @Test
  void aDeclaredVerbNeedsAMethod() {
    Info info = Info.of("p", "1");
    Hook hook = Hook.changes();
    for (Info declared :
        List.of(
            info.preempts(Verb.perNode()),
            info.filters(Verb.perNode()),
            info.scores(Verb.perNode(), Scale.unbounded()),
            info.binds(),
            info.filters(Verb.perNode()).observesOutcomes(),
            info.beforeFilter(hook),
            info.beforeFilterNodes(hook),
            info.beforeScore(hook))) {
      Policy silent = () -> declared;
      var mistake = assertThrows(DeclarationException.class, () -> Backend.of(silent)).getMessage();
      assertTrue(mistake.contains(" and has no method for it; write "), mistake);
      assertEquals("p", Backend.of(new Declaring(declared)).name().orElseThrow());
    }
  }

  @Test
  void theRevisionIncludesTheProgram() {
    for (String version : List.of("1.0.0", "1".repeat(64))) {
      Policy policy = new Declaring(Info.of("p", version).filters(Verb.perNode()));
      String revision =
          Backend.of(policy).known().orElseThrow().declaration().response.getRevision();
      int plus = revision.length() - 13;
      assertTrue(plus == 5 || plus == 51, revision);
      assertEquals(version.substring(0, plus) + "+", revision.substring(0, plus + 1));
    }
  }

  @Test
  void theDigestIsThatOfTheProgram(@TempDir Path folder) throws IOException {
    Path rules = Files.createDirectory(folder.resolve("policy")).resolve("Rules.class");
    Set<String> digests = new HashSet<>();
    for (String content : List.of("a", "b", "a")) {
      Files.writeString(rules, content);
      digests.add(Program.digest(folder.toUri().toURL()));
    }
    assertEquals(2, digests.size());
    assertEquals("", Program.digest(folder.resolve("none.jar").toUri().toURL()));
    // As of a jar in a jar.
    assertEquals("", Program.digest(new URL("jar:file:/app.jar!/BOOT-INF/lib/policy.jar")));
  }

  @Test
  void keysAreSentInTheOrderOfTheirBytes() {
    Reads reads = new Reads();
    // In UTF-16 a surrogate comes before U+FF5E.
    NodeKey smile = reads.nodeLabel("😀");
    NodeKey tilde = reads.nodeLabel("～");
    reads.nodeLabel("b");
    reads.nodeLabel("a");
    reads.nodeLabels("b");
    reads.nodeLabels("bc");
    Layout layout = new Layout(reads);
    assertEquals(List.of("a", "～", "😀"), List.copyOf(layout.rows.getLabels().getKeysList()));
    assertEquals(List.of("b"), List.copyOf(layout.rows.getLabels().getPrefixesList()));
    assertEquals(2, layout.node.labels.of(smile.key));
    assertEquals(1, layout.node.labels.of(tilde.key));
    assertEquals(Keys.Places.ENTRY, layout.node.labels.find("bcd"));
    assertEquals(Keys.Places.UNDECLARED, layout.node.labels.find("c"));
  }

  @Test
  void theDigestIsThatOfWhatTheHandshakeSends() {
    Reads one = new Reads().node(NodePart.NAME, NodePart.TAINTS);
    one.nodeLabel("a");
    one.nodeLabel("b");
    Reads other = new Reads();
    other.nodeLabel("b");
    other.nodeLabel("a");
    other.node(NodePart.TAINTS).node(NodePart.NAME);
    ByteString sha256 = new Layout(one).sha256;
    assertEquals(sha256, new Layout(other).sha256);
    var declaration = new Declaration(pure().filters(Verb.perNode().reads(one)));
    assertEquals(sha256, declaration.readsSha256(Declaration.Kind.FILTER));
    assertEquals(sha256, Sha256.of(declaration.response.getVerbs(0).getReads().toByteString()));
    other.podLabel("a");
    assertNotEquals(sha256, new Layout(other).sha256);
    // A verb without a declaration declares that it reads nothing.
    declaration = new Declaration(pure());
    assertTrue(declaration.response.getVerbs(0).hasReads());
    assertEquals(Sha256.of(ByteString.EMPTY), declaration.readsSha256(Declaration.Kind.FILTER));
  }

  @Test
  void everythingIsNotNamedApart() {
    Reads reads =
        Reads.everything()
            .node(NodePart.NAME, NodePart.TAINTS, NodePart.PROVIDER_ID)
            .node(NodePart.USAGE, NodePart.NOMINATED, NodePart.RAW_JSON, NodePart.IMAGES)
            .pod(PodPart.PRIORITY, PodPart.SERVICE_ACCOUNT, PodPart.IDENTITY);
    NodeKey zone = reads.nodeLabel("zone");
    reads.nodeLabels("x/");
    reads.nodeAnnotation("note");
    reads.podsBy(PodsBy.label("app"));
    var node =
        NodeReads.newBuilder()
            .setEverything(true)
            .addAllPartsValue(
                List.of(
                    NodePart.USAGE.number(),
                    NodePart.RAW_JSON.number(),
                    NodePart.IMAGES.number(),
                    NodePart.NOMINATED.number()))
            .setAnnotations(MapReads.newBuilder().addKeys("note"))
            .addPodCounts(PodsBy.label("app").message(false));
    var pod = PodReads.newBuilder().setEverything(true).addPartsValue(PodPart.IDENTITY.number());
    Layout layout = new Layout(reads);
    assertEquals(
        io.extendergateway.policy.v1beta1.Reads.newBuilder().setPod(pod).setNode(node).build(),
        layout.message);
    assertEquals(Keys.Places.ENTRY, layout.node.labels.of(zone.key));
    assertEquals(Keys.Places.UNDECLARED, layout.node.annotations.find("other"));
    Layout all = new Layout(Reads.everything());
    Set<Part> apart =
        Set.of(
            PodPart.IDENTITY,
            PodPart.RAW_JSON,
            NodePart.USAGE,
            NodePart.NOMINATED,
            NodePart.IMAGES,
            NodePart.RAW_JSON);
    for (PodPart part : PodPart.values()) {
      assertEquals(!apart.contains(part), all.pod.has(part), "" + part);
    }
    for (NodePart part : NodePart.values()) {
      assertEquals(!apart.contains(part), all.node.has(part), "" + part);
    }
  }

  @Test
  void everythingOfAVerbWithoutNodesIsThatOfThePod() {
    Reads everything = Reads.everything();
    Hook hook = Hook.changes(ChangedPart.POD_LABELS).reads(everything);
    var response = new Declaration(Info.of("p", "1").binds(everything).beforeFilter(hook)).response;
    for (var verb : response.getVerbsList()) {
      assertTrue(verb.getReads().getPod().getEverything());
      assertFalse(verb.getReads().hasNode());
    }
    assertFalse(response.getServicesList().contains(NodeTableServiceGrpc.SERVICE_NAME));
    // The gateway rejects what is declared of nodes there, so it must see it.
    Reads names = new Reads().node(NodePart.NAME);
    response = new Declaration(Info.of("p", "1").binds(names)).response;
    assertTrue(response.getVerbs(0).getReads().hasNode());
  }

  @Test
  void effectsAreDeclared() {
    Verb verb = Verb.perNode();
    for (var effects :
        Map.of(
                verb,
                Effects.EFFECTS_READS_OUTSIDE,
                verb.pure(),
                Effects.EFFECTS_PURE,
                verb.sideEffects(),
                Effects.EFFECTS_CHANGES_OUTSIDE)
            .entrySet()) {
      var info = Info.of("p", "1").filters(effects.getKey());
      assertEquals(effects.getValue(), new Declaration(info).response.getVerbs(0).getEffects());
    }
    Info both = Info.of("p", "1").filters(verb.pure().sideEffects());
    var mistake = assertThrows(DeclarationException.class, () -> new Declaration(both));
    assertTrue(mistake.getMessage().contains("filter is declared pure and with side effects"));
  }

  @Test
  void nodesOfWhichAtMostTheNameIsReadNeedNoTable() {
    for (Reads reads : List.of(new Reads(), new Reads().node(NodePart.NAME))) {
      assertFalse(hasTable(reads));
      for (NodePart part : List.of(NodePart.TAINTS, NodePart.USAGE, NodePart.RAW_JSON)) {
        assertTrue(hasTable(reads.copy().node(part)));
      }
    }
    assertTrue(hasTable(Reads.everything()));
  }

  private static boolean hasTable(Reads reads) {
    Info info = pure().filters(Verb.perNode().reads(reads));
    return new Declaration(info)
        .response
        .getServicesList()
        .contains(NodeTableServiceGrpc.SERVICE_NAME);
  }

  @Test
  void textsAreMeasuredCutAndOrderedByBytes() {
    String text = "aä～😀";
    assertEquals(10, Utf8.length(text));
    List<String> cuts = new ArrayList<>();
    for (int most = 0; most <= 10; most++) {
      cuts.add(Utf8.cut(text, most));
    }
    assertEquals(List.of("", "a", "a", "aä", "aä", "aä", "aä～", "aä～", "aä～", "aä～", text), cuts);
    assertTrue(Utf8.compare("～", "😀") < 0);
    assertTrue(Utf8.compare("a", "ab") < 0);
    assertEquals(0, Utf8.compare(text, text));
  }

  /** Names another policy at each question. */
  private record Renewed(Policy declared, Supplier<Policy> newer) implements Policy {
    @Override
    public Info info() {
      return declared.info();
    }

    @Override
    public Verdict filter(Pod pod, Node node) {
      return Verdict.accept();
    }

    @Override
    public Policy current() {
      return newer.get();
    }
  }

  private static Policy revised(String revision) {
    return new Declaring(pure().revision(revision));
  }

  private static String revision(Backend backend) {
    return backend.policyFor(ByteString.EMPTY).declaration().response.getRevision();
  }

  @Test
  void aPolicyThatIsReplacedWhileItNamesANewerOneStaysReplaced() {
    AtomicReference<Backend.Replaceable> backend = new AtomicReference<>();
    Supplier<Policy> newer =
        () -> {
          backend.get().replace(revised("by the program"));
          return revised("by itself");
        };
    backend.set(Backend.replaceable(new Renewed(revised("first"), newer)));
    assertEquals("by the program", revision(backend.get()));
  }

  @Test
  void aMistakeInANewerOneFailsThatCallAlone() {
    AtomicReference<Policy> newer = new AtomicReference<>(new Declaring(Info.of("p", "1")));
    Backend backend = Backend.of(new Renewed(revised("first"), newer::get));
    assertThrows(DeclarationException.class, () -> revision(backend));
    assertEquals("p", backend.name().orElseThrow());
    newer.set(revised("second"));
    assertEquals("second", revision(backend));
  }
}
