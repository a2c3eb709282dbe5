package io.extendergateway.policy;

import com.google.protobuf.ByteString;
import com.google.protobuf.DiscardUnknownFieldsParser;
import com.google.protobuf.Message;
import com.google.protobuf.Parser;
import io.extendergateway.policy.Backend.Prepared;
import io.extendergateway.policy.Declaration.Kind;
import io.extendergateway.policy.Declaration.Terms;
import io.extendergateway.policy.v1beta1.Call;
import io.extendergateway.policy.v1beta1.ChangeRequest;
import io.extendergateway.policy.v1beta1.ErrorReason;
import io.extendergateway.policy.v1beta1.Miss;
import io.extendergateway.policy.v1beta1.NodeRef;
import io.extendergateway.policy.v1beta1.NodeRow;
import io.extendergateway.policy.v1beta1.NodeRows;
import io.extendergateway.policy.v1beta1.Nodes;
import io.extendergateway.policy.v1beta1.Purpose;
import io.grpc.Status;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Reads requests and checks what they have in common: the call, the pod and the nodes. */
final class Questions {
  /** The numbers of what the requests of all verbs and hooks have in common. */
  static final int CALL = 1;

  static final int POD = 2;
  static final int NODES = 3;

  /** That of the hook in requests of hooks. */
  static final int HOOK = 4;

  /** Unknown fields would be kept with known rows, and would take much more than their bytes. */
  static final Parser<NodeRow> ROW = DiscardUnknownFieldsParser.wrap(NodeRow.parser());

  private final Backend backend;
  private final Tables tables;
  private final KnownRows known = new KnownRows();

  Questions(Backend backend, Tables tables) {
    this.backend = backend;
    this.tables = tables;
  }

  /**
   * Rejects calls of verbs of which the policy with these args declares none, before they are
   * decoded.
   */
  void admit(List<Kind> verbs, byte[] request) {
    Declaration declaration = backend.policyFor(Wire.args(request)).declaration();
    if (verbs.stream().allMatch(verb -> declaration.terms(verb) == null)) {
      throw notServed(only(verbs));
    }
  }

  /** The hook that is called. */
  static Kind hook(ChangeRequest request) {
    return only(Kind.hooks(request.getHookValue()));
  }

  /** The verb that is called, unless that is any hook, because the request names none. */
  private static Kind only(List<Kind> verbs) {
    if (verbs.size() > 1) {
      throw CallException.invalid(
          "hook is missing or unknown; it is VERB_BEFORE_FILTER, VERB_BEFORE_FILTER_NODES or VERB_BEFORE_SCORE");
    }
    return verbs.get(0);
  }

  /**
   * A request about nodes or the pod alone. Whether it is valid does not depend on which tables
   * exist.
   */
  Question about(Kind verb, Asked asked, Trace trace) {
    Message request = asked.request;
    Call call = part(request, CALL, Call.class);
    Prepared prepared = asked(verb, call, trace);
    Terms terms = termsOf(prepared, verb);
    Nodes given = part(request, NODES, Nodes.class);
    Held held = verb == Kind.BEFORE_FILTER ? withoutNodes(given) : held(given, asked, terms);
    Pod pod = podToPlace(request, call, terms);
    Access access = new Access(terms.reads.node, terms.verb.isPure);
    List<Node> nodes = Answer.each(held.rows, row -> new Node(row, access));
    trace.about(pod::subject, nodes.size());
    return new Question(prepared, terms, pod, nodes, held.miss);
  }

  /** A part that all requests have at this number; {@code null} if this one lacks it. */
  private static <T extends Message> T part(Message request, int number, Class<T> type) {
    var field = request.getDescriptorForType().findFieldByNumber(number);
    return request.hasField(field) ? type.cast(request.getField(field)) : null;
  }

  /** The policy that is asked, if it serves the verb and the call's purpose. */
  private Prepared asked(Kind verb, Call call, Trace trace) {
    if (call == null) {
      throw CallException.missing("call");
    }
    Prepared prepared = policyFor(call, verb, trace);
    checkPurpose(call, termsOf(prepared, verb).verb.hasSideEffects);
    return prepared;
  }

  private static Pod podToPlace(Message request, Call call, Terms terms) {
    var pod = part(request, POD, io.extendergateway.policy.v1beta1.Pod.class);
    if (pod == null) {
      throw CallException.missing("pod");
    }
    String mismatch = Values.topologyMismatch(pod, terms.reads.pod);
    if (mismatch != null) {
      throw CallException.invalid("pod.topology_counts%s", mismatch);
    }
    return pod(pod, call, terms);
  }

  /** The policy for a call, which its trace names. */
  Prepared policyFor(Call call, Kind verb, Trace trace) {
    trace.attribute("extender.call.id", call.getId());
    trace.attribute("extender.backend.name", call.getBackend());
    if (!call.getCluster().isEmpty()) {
      trace.attribute("extender.cluster.name", call.getCluster());
    }
    Prepared prepared = backend.policyReading(call, verb);
    trace.attribute("extender.policy.name", prepared.declaration().response.getName());
    trace.attribute("extender.policy.revision", prepared.declaration().response.getRevision());
    return prepared;
  }

  static Terms termsOf(Prepared prepared, Kind verb) {
    Terms terms = prepared.declaration().terms(verb);
    if (terms == null) {
      throw notServed(verb);
    }
    return terms;
  }

  private static CallException notServed(Kind verb) {
    return CallException.of(
        Status.Code.UNIMPLEMENTED,
        "this policy does not serve %s; its GetInfo does not list it".formatted(verb.method));
  }

  /** A number, not the enum: an unknown purpose of a later version is not a decision either. */
  static void checkPurpose(Call call, boolean onlyDecides) {
    if (call.getPurposeValue() == Purpose.PURPOSE_UNSPECIFIED_VALUE) {
      throw CallException.invalid("call.purpose is missing");
    }
    if (onlyDecides && call.getPurposeValue() != Purpose.PURPOSE_DECIDE_VALUE) {
      throw CallException.of(
              Status.Code.FAILED_PRECONDITION,
              "this policy has side effects and only answers PURPOSE_DECIDE")
          .because(ErrorReason.ERROR_REASON_PURPOSE);
    }
  }

  static Pod pod(io.extendergateway.policy.v1beta1.Pod message, Call call, Terms terms) {
    String mismatch = Values.mismatch(message, terms.reads.pod);
    if (mismatch != null) {
      throw CallException.invalid("pod.facts.%s", mismatch);
    }
    if (!message.hasFacts()) {
      throw CallException.missing("pod.facts");
    }
    return new Pod(message, new Access(terms.reads.pod, terms.verb.isPure), call);
  }

  /** The rows in the order of the request, or why there are none. */
  private record Held(List<Row> rows, Miss miss) {}

  private static Held withoutNodes(Nodes nodes) {
    if (nodes != null) {
      throw CallException.invalid("nodes are given; VERB_BEFORE_FILTER is about the pod alone");
    }
    return new Held(List.of(), null);
  }

  private Held held(Nodes nodes, Asked asked, Terms terms) {
    if (nodes == null) {
      throw CallException.missing("nodes");
    }
    switch (nodes.getFormCase()) {
      case ROWS -> {
        if (asked.rows != null) {
          return new Held(encoded(nodes, asked, terms), null);
        }
        checkCount(nodes, nodes.getRows().getRowsCount());
        return new Held(inline("rows", nodes.getRows().getRowsList(), terms), null);
      }
      case TABLE -> {
        NodeRef form = nodes.getTable();
        checkCount(nodes, form.getIdsCount());
        checkZeros(form);
        return named(form, inline("table", form.getRowsList(), terms), terms);
      }
      default -> {
        return new Held(List.of(), Miss.MISS_FORM_UNKNOWN);
      }
    }
  }

  private static void checkCount(Nodes nodes, int rows) {
    if (nodes.getCount() != rows || rows == 0) {
      throw CallException.invalid(
          "nodes.count is %s and there are %d rows; both count the nodes of the request, at least 1",
          Integer.toUnsignedString(nodes.getCount()), rows);
    }
  }

  private static void checkZeros(NodeRef form) {
    int zeros = 0;
    for (int at = 0; at < form.getIdsCount(); at++) {
      zeros += form.getIds(at) == 0 ? 1 : 0;
    }
    if (zeros != form.getRowsCount()) {
      throw CallException.invalid(
          "nodes.table.ids has %d zeros and there are %d rows; each zero stands for a row",
          zeros, form.getRowsCount());
    }
  }

  /**
   * The rows, if they hold what the policy was promised: a node without facts would look like one
   * without labels.
   */
  private static List<Row> inline(String form, List<NodeRow> messages, Terms terms) {
    List<Row> rows = new ArrayList<>(messages.size());
    for (NodeRow message : messages) {
      rows.add(checked(form, rows.size(), new Row(message), terms));
    }
    return rows;
  }

  private static Row checked(String form, int position, Row row, Terms terms) {
    String wrong =
        row.wrong(
            terms.rowParts,
            terms.reads.node.counts(),
            "the reads that this policy declares have it");
    if (wrong != null) {
      throw CallException.invalid("nodes.%s.rows[%d]%s", form, position, wrong);
    }
    return row;
  }

  /**
   * The same for rows that are not decoded. Of more than are kept, each would take another's place.
   */
  private List<Row> encoded(Nodes nodes, Asked asked, Terms terms) {
    byte[] bytes = asked.encoded;
    ByteString reads = terms.reads.sha256;
    List<Row> rows = new ArrayList<>();
    try {
      List<Wire.Range> ranges = Wire.all(bytes, asked.rows, NodeRows.ROWS_FIELD_NUMBER);
      checkCount(nodes, ranges.size());
      boolean isKept = ranges.size() <= KnownRows.SLOTS;
      for (Wire.Range range : ranges) {
        Row row = isKept ? known.find(reads, bytes, range) : null;
        if (row == null) {
          byte[] copy = Arrays.copyOfRange(bytes, range.from(), range.to());
          row = checked("rows", rows.size(), new Row(ROW.parseFrom(copy)), terms);
          if (isKept) {
            known.keep(reads, copy, row);
          }
        }
        rows.add(row);
      }
    } catch (IOException broken) {
      throw Sizes.broken(broken);
    }
    return rows;
  }

  /** The rows of a table. */
  private Held named(NodeRef form, List<Row> inline, Terms terms) {
    Tables.Table table = tables.find(form.getTable());
    // Values of another declaration could stand for other keys.
    if (table == null || !table.reads.equals(terms.reads.rows)) {
      return new Held(List.of(), Miss.MISS_TABLE_UNKNOWN);
    }
    List<Row> rows = table.rows(form.getAtLeast(), form.getIdsList(), inline);
    return rows == null ? new Held(List.of(), Miss.MISS_TABLE_BEHIND) : new Held(rows, null);
  }
}
