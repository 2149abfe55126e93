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

    /** Whether every event goes to the native library, which decides about it. */
    final boolean every;

    // An event goes there, too, if its id mod modulus is below this limit.
    private final long below;
    private final long modulus;
    private final long reciprocal;

    Rule(long word, long kind, long below, long modulus) {
        this.word = word;
        this.every = kind != NULL && kind != XOY;
        this.below = kind == XOY ? below : 0;
        this.modulus = modulus;
        this.reciprocal = Long.divideUnsigned(-1, modulus);
    }

    /** Whether the handler is null. */
    boolean idle() {
        return !every && below == 0;
    }

    /**
     * Whether id mod modulus is below the limit. There is no division: the quotient is right or one
     * too small, as in sdk/c/src/log.c.
     */
    boolean keeps(long id) {
        // The high half of the unsigned product, which Java 17 computes only with signs.
        long quotient = Math.multiplyHigh(id, reciprocal) + (id >> 63 & reciprocal)
                + (reciprocal >> 63 & id);
        long rest = id - quotient * modulus;
        if (Long.compareUnsigned(rest, modulus) >= 0) {
            rest -= modulus;
        }
        return Long.compareUnsigned(rest, below) < 0;
    }
}
