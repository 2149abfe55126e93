package io.github.cloudprofiler;

/**
 * What Java knows about the present handler. A rule does not change: when the ring's switching word
 * differs from that of the rule, another rule takes its place.
 */
final class Rule {
    /** The rule of a channel without a ring, whose switching word is 0. */
    static final Rule NOTHING = new Rule(0, 0, 0, 1);

    /** The numbers of the handlers null and xoy, as in ring/FORMAT.md. */
    private static final long NULL = 0;
    private static final long XOY = 5;

    final long word;

    // An event goes to the native library if its id mod modulus is below this limit. A handler that
    // only the library knows has modulus 1 and limit 1, so that every event goes there.
    private final long below;
    private final long modulus;
    private final long reciprocal;

    Rule(long word, long kind, long below, long modulus) {
        this.word = word;
        this.below = kind == XOY ? below : kind == NULL ? 0 : 1;
        this.modulus = kind == XOY ? modulus : 1;
        this.reciprocal = Long.divideUnsigned(-1, this.modulus);
    }

    /** Returns whether no event goes to the native library. */
    boolean idle() {
        return below == 0;
    }

    /**
     * Returns whether an event with this id goes to the native library. It does not branch to
     * another method: a JIT that has seen such a branch taken only rarely, on other channels, would
     * not inline that method.
     */
    boolean keeps(long id) {
        return Long.compareUnsigned(mod(id), below) < 0;
    }

    /**
     * Returns id mod modulus. There is no division: the quotient is right or one too small, as in
     * sdk/c/src/log.c.
     */
    private long mod(long id) {
        return reduce(id - quotient(id) * modulus);
    }

    /**
     * Returns the high half of an unsigned product. Java 17 itself has only that of a signed one.
     */
    private long quotient(long id) {
        long r = reciprocal;
        return Math.multiplyHigh(id, r) + (id >> 63 & r) + (r >> 63 & id);
    }

    private long reduce(long rest) {
        return Long.compareUnsigned(rest, modulus) < 0 ? rest : rest - modulus;
    }
}
