package io.extendergateway.policy;

import io.extendergateway.policy.Layout.Fields;
import io.extendergateway.policy.Layout.SentCount;
import io.extendergateway.policy.Layout.SentTopology;
import io.extendergateway.policy.TopologyKey.Topology;
import java.util.Locale;

/** Enforces a declaration where the policy reads. */
final class Access {
  private static final String REQUESTS = "the sum of the requests of counted pods";

  private final Fields declared;
  private final boolean isPure;

  Access(Fields declared, boolean isPure) {
    this.declared = declared;
    this.isPure = isPure;
  }

  /** The same declaration, of a verb that is pure or not. */
  Access in(Verb verb) {
    return new Access(declared, verb.isPure);
  }

  /** The position of the value of a key, or {@link Keys.Places#ENTRY}. */
  int key(Key key) {
    int place = declared.places(key.map()).of(key);
    if (place == Keys.Places.UNDECLARED) {
      throw undeclared(key.map(), key.text());
    }
    return place;
  }

  /** The same for a key that is given as a text. */
  int text(Key.Which map, String key) {
    int place = declared.places(map).find(key);
    if (place == Keys.Places.UNDECLARED) {
      throw undeclared(map, key);
    }
    return place;
  }

  /** Entries whose key begins with this are read. */
  void entries(Key.Which map, String prefix) {
    if (!declared.places(map).covers(prefix)) {
      String object = declared.object;
      throw new UndeclaredReadException(
          "%ss of the %s that begin with \"%s\"".formatted(map.singular, object, prefix),
          object + title(map) + "s");
    }
  }

  /** A part is read. */
  void part(Part part) {
    if (!declared.has(part)) {
      String object = declared.object;
      String type = part instanceof NodePart ? "NodePart" : "PodPart";
      throw new UndeclaredReadException(
          "%s of the %s".formatted(part, object), "%s(%s.%s)".formatted(object, type, part));
    }
  }

  /** The id of the call is read. */
  void callId() {
    if (isPure) {
      throw new UndeclaredReadException(
          "callId is another one in each call, which a pure verb cannot read; declare the verb without pure");
    }
  }

  /** Where the pods are counted by this. */
  SentCount pods(PodsBy by) {
    for (SentCount sent : declared.pods) {
      if (sent.by().equals(by)) {
        return sent;
      }
    }
    throw new UndeclaredReadException("a count of pods", "podsBy(%s)".formatted(by));
  }

  /** Where the pods in the cluster are counted by this. */
  SentTopology topology(Topology topology) {
    for (SentTopology sent : declared.topologies) {
      if (sent.topology().equals(topology)) {
        return sent;
      }
    }
    throw new UndeclaredReadException(
        "a count of pods by topology", "podsByTopology(%s)".formatted(topology));
  }

  static UndeclaredReadException undeclaredRequests(PodsBy by) {
    return new UndeclaredReadException(REQUESTS, "podsAndRequestsBy(%s)".formatted(by));
  }

  static UndeclaredReadException undeclaredRequests(Topology topology) {
    return new UndeclaredReadException(
        REQUESTS, "podsAndRequestsByTopology(%s)".formatted(topology));
  }

  private UndeclaredReadException undeclared(Key.Which map, String key) {
    return new UndeclaredReadException(
        "%s \"%s\" of the %s".formatted(map.singular, key, declared.object),
        declared.object + title(map));
  }

  private static String title(Key.Which map) {
    return map.singular.substring(0, 1).toUpperCase(Locale.ROOT) + map.singular.substring(1);
  }
}
