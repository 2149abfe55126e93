package io.github.cloudprofiler;

import java.lang.ref.PhantomReference;
import java.lang.ref.ReferenceQueue;
import java.util.HashSet;
import java.util.Set;

/**
 * Frees the memory of channels that no thread can reach any more. Until then, a thread may be in a
 * call on the channel, even if another thread has closed it.
 *
 * <p>There is no thread for this work, because such a thread would keep the class loader of this
 * class alive. Instead, channels are freed when others are opened or closed. If the class loader is
 * unloaded, the native library ends the remaining channels.
 */
final class Reaper {
    private static final ReferenceQueue<Channel> unreachable = new ReferenceQueue<>();
    private static final Set<Claim> claims = new HashSet<>(); // protected by its own lock

    private Reaper() {}

    static Claim claim(Channel channel, long address) {
        Claim claim = new Claim(channel, address);
        synchronized (claims) {
            claims.add(claim);
        }
        return claim;
    }

    static void reap() {
        for (Object ref; (ref = unreachable.poll()) != null; ) {
            Claim claim = (Claim) ref;
            claim.end();
            Native.free(claim.address);
            synchronized (claims) {
                claims.remove(claim);
            }
        }
    }

    /** The native memory of one channel. */
    static final class Claim extends PhantomReference<Channel> {
        private final long address;
        private boolean ended; // protected by this claim's lock

        private Claim(Channel channel, long address) {
            super(channel, unreachable);
            this.address = address;
        }

        /** Ends logging to the channel. Calls on the channel may still run. */
        synchronized void end() {
            if (!ended) {
                ended = true;
                Native.retire(address);
            }
        }
    }
}
