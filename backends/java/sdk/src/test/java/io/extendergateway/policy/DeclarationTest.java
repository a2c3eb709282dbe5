package io.extendergateway.policy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.extendergateway.policy.v1alpha1.NodeView;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Mistakes of declarations, and their canonical form. */
class DeclarationTest {
  private static Info pure() {
    return Info.of("p", "1").filters(Verb.perNode().pure());
  }

  private static Info scores(Scale scale) {
    return Info.of("p", "1").scores(Verb.perNode(), scale);
  }

  private static void wrong(Info info, String text) {
    DeclarationException mistakes =
        assertThrows(DeclarationException.class, () -> new Declaration(info));
    assertTrue(mistakes.getMessage().contains(text), mistakes.getMessage());
  }

  @Test
  void eachMistakeIsNamed() {
    Verb perNode = Verb.perNode();
    wrong(Info.of("p", "1"), "no verb is declared; call Info.filters");
    wrong(Info.of("", "1").filters(perNode), "name has 0 bytes; expected 1 to 63");
    wrong(Info.of("ä".repeat(32), "1").filters(perNode), "name has 64 bytes");
    wrong(Info.of("p", "").filters(perNode), "version has 0 bytes");
    wrong(pure().revision("r".repeat(65)), "revision has 65 bytes; expected 1 to 64");
    wrong(Info.of("p", "1").preempts(perNode.pure()), "preempt cannot be pure");
    wrong(pure().rawPod(), "filter is pure and has Info.rawPod");
    wrong(pure().filters(Verb.wholeSet().pure()), "has Verb.wholeSet");
    wrong(pure().filters(perNode.pure().sideEffects()), "has Verb.sideEffects");
    wrong(pure().filters(perNode.pure().view(View.FACTS_AND_RAW)), "has View.FACTS_AND_RAW");
    wrong(pure().filters(perNode.view(View.NAME).usage()), "filter has Verb.usage and View.NAME");
    wrong(scores(Scale.unbounded().reversed()), "a reversed scale requires a normalization");
    wrong(scores(Scale.unbounded().normalize(Normalization.RANGE)), "needs Scale.between");
    wrong(scores(Scale.between(3, 3).normalize(Normalization.RANGE)), "two different bounds");
    wrong(scores(Scale.between(1, 0)), "the scale 1..=0 is empty");
    wrong(
        pure().filters(perNode.view(View.NAME).reads(label("a"))), "reads nodes and has View.NAME");
    wrong(Info.of("p", "1").binds(label("a")), "bind reads nodes, but is sent only their names");
    wrong(
        pure().filters(perNode.pure().reads(new Reads().pod(PodPart.IDENTITY))),
        "is pure and reads PodPart.IDENTITY");
    wrong(pure().filters(perNode.reads(label(""))), "Reads.nodeLabel(\"\") has 0 bytes");
    wrong(
        pure().filters(perNode.reads(label("k".repeat(318)))), "has 318 bytes; expected 1 to 317");
    Reads many = new Reads();
    for (int at = 0; at < 1001; at++) {
      many.podLabel("k" + at);
    }
    wrong(pure().filters(perNode.reads(many)), "there are 1001 keys and prefixes");
    Reads counts = new Reads();
    for (int at = 0; at < 9; at++) {
      counts.podsBy(PodsBy.label("k" + at));
    }
    wrong(pure().filters(perNode.reads(counts)), "pods are counted by 9 attributes");
    Reads topology = new Reads();
    topology.podsByTopology(PodsBy.owner(), "zone");
    wrong(
        Info.of("p", "1").preempts(perNode.reads(topology)),
        "preempt reads counts by topology, which only filter and score are sent");
  }

  private static Reads label(String key) {
    Reads reads = new Reads();
    reads.nodeLabel(key);
    return reads;
  }

  @Test
  void allMistakesComeTogetherWhenTheServerIsMade() {
    Info info = Info.of("", "1").scores(Verb.wholeSet().pure(), Scale.unbounded().reversed());
    Policy policy = () -> info;
    DeclarationException mistakes =
        assertThrows(DeclarationException.class, () -> Backend.of(policy));
    assertEquals(3, mistakes.mistakes().size());
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
    Layout layout = new Layout(reads, View.FACTS);
    assertEquals(List.of("a", "～", "😀"), List.copyOf(layout.rows.getLabels().getKeysList()));
    assertEquals(List.of("b"), List.copyOf(layout.rows.getLabels().getPrefixesList()));
    assertEquals(2, layout.node.labels.of(smile.key));
    assertEquals(1, layout.node.labels.of(tilde.key));
    assertEquals(Keys.Places.ENTRY, layout.node.labels.find("bcd"));
    assertEquals(Keys.Places.UNDECLARED, layout.node.labels.find("c"));
  }

  @Test
  void theIdIsThatOfTheDeclarationAndNotOfItsHistory() {
    Reads one = new Reads().node(NodePart.NAME, NodePart.TAINTS);
    one.nodeLabel("a");
    one.nodeLabel("b");
    Reads other = new Reads();
    other.nodeLabel("b");
    other.nodeLabel("a");
    other.node(NodePart.TAINTS).node(NodePart.NAME);
    int id = new Layout(one, View.FACTS).message.getId();
    assertEquals(id, new Layout(other, View.FACTS).message.getId());
    other.podLabel("a");
    assertNotEquals(id, new Layout(other, View.FACTS).message.getId());
    assertNotEquals(0, new Layout(new Reads(), View.FACTS).message.getId());
    // Fixed for all time: another process, and the SDKs of other languages, have the same.
    assertEquals(0x811c9dc5, new Layout(new Reads(), View.FACTS).message.getId());
  }

  @Test
  void nodesOfWhichNothingIsReadAreNames() {
    for (Reads reads : List.of(new Reads(), new Reads().node(NodePart.NAME))) {
      var response = new Declaration(pure().filters(Verb.perNode().reads(reads))).response;
      assertEquals(NodeView.NODE_VIEW_NAME, response.getVerbs(0).getNodeView());
      assertFalse(response.getVerbs(0).getReads().hasNode());
      assertEquals(0, response.getServicesCount());
      response = new Declaration(pure().filters(Verb.perNode().usage().reads(reads))).response;
      assertEquals(NodeView.NODE_VIEW_FACTS, response.getVerbs(0).getNodeView());
      assertEquals(1, response.getServicesCount());
    }
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
}
