package io.extendergateway.policy;

import io.extendergateway.policy.v1alpha1.Hold;
import io.extendergateway.policy.v1alpha1.HoldUser;
import io.extendergateway.policy.v1alpha1.NodeAffinity;
import io.extendergateway.policy.v1alpha1.NodeSelectorRequirement;
import io.extendergateway.policy.v1alpha1.NodeSelectorTerm;
import io.extendergateway.policy.v1alpha1.NodeUsage;
import io.extendergateway.policy.v1alpha1.PreferredSchedulingTerm;
import io.extendergateway.policy.v1alpha1.Resources;
import io.extendergateway.policy.v1alpha1.Taint;
import io.extendergateway.policy.v1alpha1.Toleration;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Rejects the changes of an answer that break the contract, before they are sent: the gateway takes
 * such an answer for a failure, and the author of the policy learns of it here, in the first test.
 */
final class ChangeCheck {
  private static final int MAX_ENTRIES = 64;

  /** Of all changes of an answer, which may have more for each node. */
  private static final int MAX_ALL_ENTRIES = 4096;

  private static final int MAX_ENTRIES_PER_NODE = 4;
  private static final int MAX_KEY_BYTES = 317;
  private static final int MAX_VALUE_BYTES = 256;
  private static final int MAX_TERMS = 1024;

  /** Of a change, and of all changes of an answer, which may have more for each node. */
  private static final int MAX_HOLD_USERS = 1024;

  private static final int MAX_HOLD_USERS_PER_NODE = 24;
  private static final int MAX_UID_BYTES = 64;
  private static final int MAX_AFFINITY_BYTES = 64 << 10;

  /** The method of the policy. */
  private final String method;

  private final Set<ChangedPart> declared;
  private final long mostEntries;
  private final long mostUsers;

  /** Those of the changes so far. */
  private long allEntries;

  /** The users of holds of the changes so far, with their other resources. */
  private long allUsers;

  /** For an answer about this many nodes. */
  ChangeCheck(String method, Set<ChangedPart> declared, int nodes) {
    this.method = method;
    this.declared = declared;
    mostEntries = MAX_ALL_ENTRIES + (long) MAX_ENTRIES_PER_NODE * nodes;
    mostUsers = MAX_HOLD_USERS + (long) MAX_HOLD_USERS_PER_NODE * nodes;
  }

  void pod(PodChange change) {
    parts(change.parts());
    var message = change.message;
    Resources requests = message.getAddRequests();
    entries(
        message.getSetLabelsCount()
            + message.getRemoveLabelsCount()
            + message.getSetNodeSelectorCount()
            + message.getRemoveNodeSelectorCount()
            + message.getAddTolerationsCount()
            + message.getRemoveTolerationsCount()
            + requests.getOthersCount());
    labels("a label of the pod", message.getSetLabelsMap(), message.getRemoveLabelsList());
    labels(
        "an entry of the node selector",
        message.getSetNodeSelectorMap(),
        message.getRemoveNodeSelectorList());
    message.getAddTolerationsList().forEach(this::toleration);
    message.getRemoveTolerationsList().forEach(this::toleration);
    resources(requests);
    affinity(message.getNodeAffinity());
  }

  void node(NodeChange change) {
    parts(change.parts());
    var message = change.message;
    Resources allocatable = message.getAddAllocatable();
    NodeUsage usage = message.getAddUsage();
    entries(
        message.getSetLabelsCount()
            + message.getRemoveLabelsCount()
            + message.getAddTaintsCount()
            + message.getRemoveTaintsCount()
            + message.getHoldsList().stream()
                .mapToInt(hold -> 1 + hold.getResources().getOthersCount())
                .sum()
            + allocatable.getOthersCount()
            + usage.getRequested().getOthersCount());
    labels("a label of a node", message.getSetLabelsMap(), message.getRemoveLabelsList());
    message.getAddTaintsList().forEach(this::added);
    message.getRemoveTaintsList().forEach(this::taint);
    resources(allocatable);
    resources(usage.getRequested());
    holds(message.getHoldsList());
  }

  private void holds(List<Hold> holds) {
    int users = 0;
    for (Hold hold : holds) {
      resources(hold.getResources());
      amounts(hold.getResources());
      for (HoldUser user : hold.getUsersList()) {
        users += 1 + user.getAtMost().getOthersCount();
        amounts(user.getAtMost());
        int bytes = Utf8.length(user.getUid());
        if (bytes < 1 || bytes > MAX_UID_BYTES) {
          throw CallException.internal(
              "%s returned the user of a hold with a UID of %d bytes; expected 1 to %d",
              method, bytes, MAX_UID_BYTES);
        }
      }
    }
    if (users > MAX_HOLD_USERS) {
      throw CallException.internal(
          "%s returned holds of a node with %d users and their other resources; expected at most %d",
          method, users, MAX_HOLD_USERS);
    }
    allUsers += users;
    if (allUsers > mostUsers) {
      throw CallException.internal(
          "%s returned holds with more than %d users and their other resources; expected fewer, or equal changes for"
              + " more nodes",
          method, mostUsers);
    }
  }

  private void amounts(Resources held) {
    long least = Math.min(held.getMilliCpu(), held.getMemory());
    least = Math.min(least, Math.min(held.getEphemeralStorage(), held.getPods()));
    for (long other : held.getOthersMap().values()) {
      least = Math.min(least, other);
    }
    if (least < 0) {
      throw CallException.internal("%s returned a hold with a negative amount", method);
    }
  }

  private void parts(Set<ChangedPart> changed) {
    for (ChangedPart part : changed) {
      if (!declared.contains(part)) {
        throw CallException.internal(
            "%s changes %s, which it does not declare; declare it with Hook.changing(ChangedPart.%s)",
            method, part.words(), part);
      }
    }
  }

  private void entries(int given) {
    if (given > MAX_ENTRIES) {
      throw CallException.internal(
          "%s returned a change with %d entries; expected at most %d in all maps and lists",
          method, given, MAX_ENTRIES);
    }
    allEntries += given;
    if (allEntries > mostEntries) {
      throw CallException.internal(
          "%s returned changes with more than %d entries; expected fewer, or equal changes for more nodes",
          method, mostEntries);
    }
  }

  private void labels(String what, Map<String, String> set, List<String> removed) {
    set.forEach(
        (key, value) -> {
          key(what, key);
          value(what, value);
        });
    removed.forEach(key -> key(what, key));
  }

  /** An empty key stands for all keys. */
  private void toleration(Toleration toleration) {
    if (!toleration.getKey().isEmpty()) {
      key("a toleration", toleration.getKey());
    }
    value("a toleration", toleration.getOperator());
    value("a toleration", toleration.getValue());
    value("a toleration", toleration.getEffect());
  }

  private void added(Taint taint) {
    taint(taint);
    if (taint.getEffect().isEmpty()) {
      throw CallException.internal(
          "%s adds the taint \"%s\" without an effect; expected one such as NoSchedule",
          method, taint.getKey());
    }
  }

  private void taint(Taint taint) {
    key("a taint", taint.getKey());
    value("a taint", taint.getValue());
    value("a taint", taint.getEffect());
  }

  private void resources(Resources amounts) {
    amounts.getOthersMap().keySet().forEach(name -> key("a resource", name));
  }

  private void affinity(NodeAffinity affinity) {
    int bytes = affinity.getSerializedSize();
    if (bytes > MAX_AFFINITY_BYTES) {
      throw CallException.internal(
          "%s returned a node affinity of %d bytes; expected at most %d",
          method, bytes, MAX_AFFINITY_BYTES);
    }
    int terms = 0;
    for (NodeSelectorTerm term : affinity.getRequired().getTermsList()) {
      terms += terms(term);
    }
    for (PreferredSchedulingTerm preferred : affinity.getPreferredList()) {
      terms += 1 + terms(preferred.getPreference());
    }
    if (terms > MAX_TERMS) {
      throw CallException.internal(
          "%s returned a node affinity with %d terms, requirements and values; expected at most %d",
          method, terms, MAX_TERMS);
    }
  }

  private static int terms(NodeSelectorTerm term) {
    return 1
        + requirements(term.getMatchExpressionsList())
        + requirements(term.getMatchFieldsList());
  }

  private static int requirements(List<NodeSelectorRequirement> requirements) {
    return requirements.stream().mapToInt(each -> 1 + each.getValuesCount()).sum();
  }

  private void key(String what, String key) {
    int bytes = Utf8.length(key);
    if (bytes < 1 || bytes > MAX_KEY_BYTES) {
      throw CallException.internal(
          "%s returned %s with a key of %d bytes; expected 1 to %d",
          method, what, bytes, MAX_KEY_BYTES);
    }
  }

  private void value(String what, String value) {
    int bytes = Utf8.length(value);
    if (bytes > MAX_VALUE_BYTES) {
      throw CallException.internal(
          "%s returned %s with a value of %d bytes; expected at most %d",
          method, what, bytes, MAX_VALUE_BYTES);
    }
  }
}
