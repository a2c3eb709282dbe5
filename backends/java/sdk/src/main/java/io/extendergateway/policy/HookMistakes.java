package io.extendergateway.policy;

import java.util.List;

/** What the contract does not allow in the declaration of a hook, one sentence each. */
final class HookMistakes {
  private HookMistakes() {}

  static void add(List<String> mistakes, Info info) {
    if (info.beforeFilter != null) {
      ofChanges(mistakes, "beforeFilter", info.beforeFilter);
      ofNodes(mistakes, info.beforeFilter);
      ofVerb(mistakes, "beforeFilter", info.beforeFilter, info);
    }
    if (info.beforeFilterNodes != null) {
      ofChanges(mistakes, "beforeFilterNodes", info.beforeFilterNodes);
      ofVerb(mistakes, "beforeFilterNodes", info.beforeFilterNodes, info);
    }
    if (info.beforeScore != null) {
      ofChanges(mistakes, "beforeScore", info.beforeScore);
      ofVerb(mistakes, "beforeScore", info.beforeScore, info);
    }
  }

  private static void ofChanges(List<String> mistakes, String name, Hook hook) {
    if (hook.changes.isEmpty()) {
      mistakes.add(name + " changes nothing; name the parts that it changes in Hook.changing");
    }
    for (ChangedPart part : hook.changes) {
      if (name.equals("beforeFilter") && !part.isOfPod()) {
        mistakes.add(
            "beforeFilter changes %s, but can change the pod alone; use Info.beforeFilterNodes"
                .formatted(part.words()));
      } else if (name.equals("beforeFilterNodes") && part.isOfPod()) {
        mistakes.add(
            "beforeFilterNodes changes %s, but can change nodes alone; use Info.beforeFilter"
                .formatted(part.words()));
      } else if (name.equals("beforeScore") && part.isOfPod() && hook.isPure) {
        // An answer about a node is cached; the pod's change is none.
        mistakes.add(
            "beforeScore is pure and changes %s, but a pure one can change nodes alone; remove one"
                .formatted(part.words()));
      }
    }
  }

  private static void ofNodes(List<String> mistakes, Hook hook) {
    without(mistakes, hook.view != null, "Hook.view");
    without(mistakes, hook.isWholeSet, "Hook.wholeSet");
    without(mistakes, hook.wantsUsage, "Hook.usage");
    if (hook.reads != null && (hook.reads.readsNodes() || hook.reads.node.parts != 0)) {
      mistakes.add("beforeFilter reads nodes, but has none; declare what it reads of the pod");
    }
  }

  private static void without(List<String> mistakes, boolean found, String with) {
    if (found) {
      mistakes.add("beforeFilter has %s, but has no nodes; remove it".formatted(with));
    }
  }

  private static void ofVerb(List<String> mistakes, String name, Hook hook, Info info) {
    Declaration.verbMistakes(mistakes, "Hook", name, hook.verb(), info);
  }
}
