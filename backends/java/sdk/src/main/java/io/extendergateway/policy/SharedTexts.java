package io.extendergateway.policy;

import io.extendergateway.policy.v1beta1.MapValues;
import io.extendergateway.policy.v1beta1.NodeFacts;
import io.extendergateway.policy.v1beta1.NodeRow;
import io.extendergateway.policy.v1beta1.Resources;
import java.util.HashMap;
import java.util.Map;

/**
 * The keys of a table's rows, each kept once: all nodes have the same keys of labels, types of
 * conditions and names of resources, and the copies would be half of the memory of a row.
 */
final class SharedTexts {
  /** More distinct keys than this are not shared: they are not those of a cluster. */
  private static final int MAX_TEXTS = 10_000;

  private final Map<String, String> known = new HashMap<>();

  /** The same row with shared texts. */
  NodeRow in(NodeRow row) {
    NodeFacts facts = row.getFacts();
    boolean plain =
        facts.getLabels().getEntriesCount() + facts.getAnnotations().getEntriesCount() == 0
            && facts.getConditionsCount() == 0
            && facts.getCapacity().getOthersCount() + facts.getAllocatable().getOthersCount() == 0;
    if (plain) {
      return row;
    }
    NodeFacts.Builder shared = facts.toBuilder().clearConditions();
    if (facts.hasLabels()) {
      shared.setLabels(in(facts.getLabels()));
    }
    if (facts.hasAnnotations()) {
      shared.setAnnotations(in(facts.getAnnotations()));
    }
    // A status is one of three texts.
    facts.getConditionsMap().forEach((type, status) -> shared.putConditions(of(type), of(status)));
    if (facts.hasCapacity()) {
      shared.setCapacity(in(facts.getCapacity()));
    }
    if (facts.hasAllocatable()) {
      shared.setAllocatable(in(facts.getAllocatable()));
    }
    return row.toBuilder().setFacts(shared).build();
  }

  private MapValues in(MapValues given) {
    if (given.getEntriesCount() == 0) {
      return given;
    }
    MapValues.Builder shared = given.toBuilder().clearEntries();
    given.getEntriesMap().forEach((key, value) -> shared.putEntries(of(key), value));
    return shared.build();
  }

  private Resources in(Resources amounts) {
    if (amounts.getOthersCount() == 0) {
      return amounts;
    }
    Resources.Builder shared = amounts.toBuilder().clearOthers();
    amounts.getOthersMap().forEach((name, amount) -> shared.putOthers(of(name), amount));
    return shared.build();
  }

  private String of(String text) {
    String same = known.get(text);
    if (same == null && known.size() < MAX_TEXTS) {
      known.put(text, text);
    }
    return same == null ? text : same;
  }
}
