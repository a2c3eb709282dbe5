package io.extendergateway.policy;

/** Declares anything, and changes and rejects nothing. */
record Declaring(Info info) implements Policy {
  @Override
  public Verdict filter(Pod pod, Node node) {
    return Verdict.accept();
  }

  @Override
  public int score(Pod pod, Node node) {
    return 0;
  }

  @Override
  public Eviction preempt(Pod pod, Candidate candidate) {
    return Eviction.all();
  }

  @Override
  public Bind bind(BindAsk ask) {
    return Bind.declined("as declared");
  }

  @Override
  public void observe(Outcome outcome) {}

  @Override
  public PodChange beforeFilter(Pod pod) {
    return PodChange.none();
  }

  @Override
  public NodeChange beforeFilterNode(Pod pod, Node node) {
    return NodeChange.none();
  }

  @Override
  public PodChange beforeScorePod(Pod pod) {
    return PodChange.none();
  }
}
