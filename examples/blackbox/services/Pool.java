import java.io.*;
import java.net.*;
import java.util.concurrent.*;

/**
 * A thread pool. A thread for each connection reads requests, and threads of the pool answer them.
 * Before a thread answers, it asks the service epoll over one of several connections.
 *
 * <p>java Pool.java PORT EPOLL_HOST EPOLL_PORT THREADS TRUTH
 */
class Pool {
    static PrintWriter truth;
    static int noted;

    /** Writes one line of truth and returns its number. */
    static synchronized int note(char kind, Conn c, String id, int bytes, long before, int cause) {
        truth.println(++noted + "\t" + kind + "\t" + c.name + "\t" + id + "\t" + bytes + "\t"
                + before + "\t" + System.nanoTime() + "\t" + (cause == 0 ? "" : cause));
        return noted;
    }

    static class Conn {
        final Socket socket;
        final String name;
        final byte[] part = new byte[256];
        int held;

        Conn(Socket s) throws IOException {
            socket = s;
            s.setTcpNoDelay(true);
            name = "tcp " + s.getLocalAddress().getHostAddress() + ":" + s.getLocalPort() + " "
                    + s.getInetAddress().getHostAddress() + ":" + s.getPort();
        }

        /** Sends a line. Threads take turns, so that truth has the lines in the stream's order. */
        synchronized void say(String id, int cause) throws IOException {
            byte[] line = (id + "\n").getBytes();
            long before = System.nanoTime();
            socket.getOutputStream().write(line);
            note('S', this, id, line.length, before, cause);
        }

        /** Reads a line. The result's {@code n} is the number of the message that completed the
         * line. */
        Request hear() throws IOException {
            int n = 0;
            String id = "";
            while (held == 0 || part[held - 1] != '\n') { // callers wait for the answer
                long before = System.nanoTime();
                int bytes = socket.getInputStream().read(part, held, part.length - held);
                if (bytes < 0) {
                    return null;
                }
                held += bytes;
                id = new String(part, 0, held).trim();
                n = note('R', this, id, bytes, before, 0);
            }
            held = 0;
            return new Request(id, n);
        }
    }

    record Request(String id, int n) {}

    public static void main(String[] args) throws Exception {
        int threads = Integer.parseInt(args[3]);
        truth = new PrintWriter(new BufferedWriter(new FileWriter(args[4])));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            synchronized (Pool.class) {
                truth.close();
            }
        }));
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        BlockingQueue<Conn> idle = new LinkedBlockingQueue<>();
        for (int i = 0; i < threads / 2 + 1; i++) {
            idle.add(new Conn(new Socket(args[1], Integer.parseInt(args[2]))));
        }
        ServerSocket server = new ServerSocket(Integer.parseInt(args[0]));
        while (true) {
            Conn from = new Conn(server.accept());
            new Thread(() -> {
                try {
                    for (Request r; (r = from.hear()) != null; ) {
                        Request asked = r;
                        pool.submit(() -> {
                            Conn c = idle.take();
                            c.say(asked.id, asked.n);
                            Request answered = c.hear();
                            idle.add(c);
                            from.say(asked.id, answered.n);
                            return null;
                        });
                    }
                } catch (IOException e) {
                    e.printStackTrace();
                }
            }).start();
        }
    }
}
