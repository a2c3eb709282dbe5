package io.extendergateway.policy.testing;

import io.extendergateway.policy.v1beta1.Candidate;
import io.extendergateway.policy.v1beta1.Victim;
import java.util.List;

/** A node on which pods would be evicted. Each method changes it and returns it. */
public final class TestCandidate {
  private final TestNode node;
  private final Candidate.Builder candidate = Candidate.newBuilder();

  /** No pod would be evicted yet; a policy never gets such a call. */
  public TestCandidate(TestNode node) {
    this.node = node;
  }

  /** With a victim of this UID, after the others. */
  public TestCandidate victim(String uid, TestPod pod) {
    candidate.addVictims(Victim.newBuilder().setUid(uid).setPod(pod.message()));
    return this;
  }

  /** With a victim of which only the UID is known. */
  public TestCandidate unknownVictim(String uid) {
    candidate.addVictims(Victim.newBuilder().setUid(uid));
    return this;
  }

  /** With this many evictions that violate a PodDisruptionBudget. */
  public TestCandidate pdbViolations(int number) {
    candidate.setPdbViolations(number);
    return this;
  }

  TestNode node() {
    return node;
  }

  Candidate message() {
    return candidate.setPlaceholder(candidate.getVictimsCount() == 0).build();
  }

  List<String> uids(List<Integer> positions) {
    return positions.stream().map(at -> candidate.getVictims(at).getUid()).toList();
  }
}
