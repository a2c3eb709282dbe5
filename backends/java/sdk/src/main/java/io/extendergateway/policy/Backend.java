package io.extendergateway.policy;

import com.google.protobuf.ByteString;
import io.extendergateway.policy.v1beta1.Call;
import io.extendergateway.policy.v1beta1.ErrorReason;
import io.grpc.Status;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Function;
import java.util.function.UnaryOperator;

/**
 * The source of the policy that answers a call: a fixed one, one that is {@linkplain #replaceable
 * replaced} while running, or one {@linkplain #configured built} from the operator's args.
 */
public abstract non-sealed class Backend implements Source {
  private Backend() {}

  /** A policy with its declaration, which belong together: a call never mixes two policies. */
  record Prepared(Policy policy, Declaration declaration) {
    /** With what counts as declared of what the policy declares. */
    static Prepared of(Policy policy, UnaryOperator<Info> declared) {
      Info info = declared.apply(policy.info());
      Written.check(policy, info);
      if (info.revision == null) {
        info = info.revision(Program.revision(policy, info.version));
      }
      return new Prepared(policy, new Declaration(info));
    }

    boolean isReady() {
      try {
        policy.ready();
        return true;
      } catch (NotReadyException | RuntimeException notReady) {
        return false;
      }
    }

    boolean binds() {
      return declaration.terms(Declaration.Kind.BIND) != null;
    }
  }

  /**
   * One policy that takes no args.
   *
   * @throws DeclarationException if its {@link Info} declares no verb, or one without a method
   */
  public static Backend of(Policy policy) {
    return new Fixed(Versions.of(policy), false);
  }

  /**
   * A policy built from the operator's args, so that one process serves several configured
   * policies. The function is called once for each distinct args, not once a call (the last 16
   * results are kept); without args it sees an empty object.
   *
   * <pre>{@code
   * record Drain(String label, @ArgDefault("1") int weight) {}
   *
   * Backend.configured(Drain.class, DrainPolicy::new)
   * }</pre>
   *
   * @param type the class of the args, a record; see {@link Args#as}
   * @param build makes the policy; an {@link ArgsException} rejects the args
   */
  public static <A> Backend configured(Class<A> type, Function<? super A, ? extends Policy> build) {
    return configured(args -> build.apply(args.as(type)));
  }

  /** The same for args that are read by hand. */
  public static Backend configured(Function<Args, ? extends Policy> build) {
    return new Configured(build);
  }

  /**
   * A policy that takes no args and is replaced while running, such as one made from a rule file.
   *
   * @throws DeclarationException if its {@link Info} declares no verb, or one without a method
   */
  public static Replaceable replaceable(Policy policy) {
    return new Replaceable(Versions.of(policy));
  }

  static Backend of(Source source) {
    return source instanceof Policy policy ? of(policy) : (Backend) source;
  }

  /** A policy that reads all that may be declared, whatever it declares. */
  static Backend readingEverything(Policy policy) {
    return new Fixed(new Versions(policy, Info::readingEverything), false);
  }

  /** The policy that this backend has for these args, for any args. */
  Backend withArgs(ByteString args) {
    return new Fixed(versionsFor(NamedArgs.of(args)), true);
  }

  /** The policy for these args. */
  final Prepared policyFor(ByteString args) {
    return policyFor(NamedArgs.of(args));
  }

  final Prepared policyFor(NamedArgs args) {
    return admitted(versionsFor(args).latest());
  }

  /** The versions of the policy for these args. */
  abstract Versions versionsFor(NamedArgs args);

  /** The policy, if it may be served here. */
  Prepared admitted(Prepared policy) {
    return policy;
  }

  /** The policy, if it is known before args come. */
  Optional<Prepared> known() {
    return Optional.empty();
  }

  /** Whether all policies that there are now are ready. */
  boolean isReady() {
    return known().stream().allMatch(Prepared::isReady);
  }

  /** The policy's name, if it is known before args come. */
  final Optional<String> name() {
    return known().map(prepared -> prepared.declaration.response.getName());
  }

  /**
   * The same backend at an address that other machines reach without a certificate: it must not
   * bind. Whether a policy that is built from args binds is known when it is called.
   *
   * @throws ServeException if it is known already
   */
  final Backend exposedAt(String address) throws ServeException {
    String refusal =
        ("%s is reached from other machines without a client certificate, and callers of this policy can bind pods"
                + " with its permissions; set --tls-client-ca or a loopback --address, or --allow-unauthenticated-bind")
            .formatted(address);
    if (known().filter(Prepared::binds).isPresent()) {
      throw new ServeException(refusal, null);
    }
    return new Exposed(this, refusal);
  }

  /**
   * The policy for this call: the one for its args or, if that one no longer declares what pod and
   * nodes were encoded with, an earlier one that does. Whether the verb is declared is left to the
   * caller.
   */
  final Prepared policyReading(Call call, Declaration.Kind verb) {
    Versions versions = versionsFor(NamedArgs.of(call));
    Prepared latest = admitted(versions.latest());
    ByteString declared = latest.declaration.readsSha256(verb);
    if (declared == null || declared.equals(call.getReads())) {
      return latest;
    }
    return versions
        .declaring(verb, call.getReads())
        .orElseThrow(
            () ->
                CallException.of(
                        Status.Code.FAILED_PRECONDITION,
                        "call.reads is not the SHA-256 of the reads that this policy now declares; repeat the handshake")
                    .because(ErrorReason.ERROR_REASON_OTHER_READS));
  }

  /** Refuses policies that bind. */
  private static final class Exposed extends Backend {
    private final Backend backend;
    private final String refusal;

    Exposed(Backend backend, String refusal) {
      this.backend = backend;
      this.refusal = refusal;
    }

    @Override
    Versions versionsFor(NamedArgs args) {
      return backend.versionsFor(args);
    }

    @Override
    Prepared admitted(Prepared policy) {
      if (policy.binds()) {
        throw CallException.of(Status.Code.FAILED_PRECONDITION, refusal);
      }
      return policy;
    }

    @Override
    Optional<Prepared> known() {
      return backend.known();
    }

    @Override
    boolean isReady() {
      return backend.isReady();
    }
  }

  private static class Fixed extends Backend {
    final Versions versions;
    private final boolean takesAnyArgs;

    /** Without any argument, such as an empty object: calls name also these by their digest. */
    private final ByArgs empty = new ByArgs(this::refusingAny);

    Fixed(Versions versions, boolean takesAnyArgs) {
      this.versions = versions;
      this.takesAnyArgs = takesAnyArgs;
    }

    @Override
    final Versions versionsFor(NamedArgs args) {
      return takesAnyArgs || args.areNone() ? versions : empty.of(args);
    }

    private Versions refusingAny(ByteString args) {
      Args.of(args).refuseAny();
      return versions;
    }

    @Override
    final Optional<Prepared> known() {
      return Optional.of(versions.newest());
    }
  }

  /**
   * A policy that is replaced while running. Calls under way finish with the old one. If the new
   * policy declares other {@link Reads}, the old one still answers the calls that were made for it,
   * until the gateway has repeated the handshake; so do the 16 latest of several old ones.
   */
  public static final class Replaceable extends Fixed {
    private Replaceable(Versions versions) {
      super(versions, false);
    }

    /**
     * From now on this policy answers. A declaration that the gateway rejects replaces the old one,
     * too: check it with policy-conformance before.
     *
     * @throws DeclarationException if its {@link Info} declares no verb, or one without a method;
     *     the old one stays
     */
    public void replace(Policy policy) {
      versions.replace(policy);
    }
  }

  private static final class Configured extends Backend {
    private final ByArgs policies;

    Configured(Function<Args, ? extends Policy> build) {
      Objects.requireNonNull(build, "build");
      policies = new ByArgs(args -> Versions.of(build.apply(Args.of(args))));
    }

    @Override
    Versions versionsFor(NamedArgs args) {
      return policies.of(args);
    }

    @Override
    boolean isReady() {
      return policies.all().stream().allMatch(versions -> versions.newest().isReady());
    }
  }
}
