package io.github.cloudprofiler;

/**
 * What Java knows about the handler in force. Rules do not change: when the switching word of the
 * ring differs from a rule's, another rule takes its place.
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

    /** Whether no event goes to the native library. */
    boolean idle() {
        return below == 0;
    }

    /**
     * Whether an event with this id goes to the native library. There is no branch to a method: a
     * JIT that has seen a branch taken rarely, on other channels, does not inline the method.
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

    /** The high half of the unsigned product, which Java 17 computes only with signs. */
    private long quotient(long id) {
        long r = reciprocal;
        return Math.multiplyHigh(id, r) + (id >> 63 & r) + (r >> 63 & id);
    }

    private long reduce(long rest) {
        return Long.compareUnsigned(rest, modulus) < 0 ? rest : rest - modulus;
    }
}
