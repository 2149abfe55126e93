package io.github.cloudprofiler.agent;

import java.util.ArrayList;
import java.util.List;

/**
 * What a joinpoint passes to its advice, such as {@code this.queue.size()}, {@code $1.id} or {@code
 * ($1 as com.example.Tuple).getId()}. {@code $1} is the method's first argument, {@code return} is
 * its result, and {@code state} is what the advice keeps in the object. An expression has only
 * fields, methods without arguments, and casts, so that it does little work.
 */
sealed interface Expression {
    /** this, $1 and so on, return, state. */
    record Root(String name) implements Expression {}

    record Field(Expression of, String name) implements Expression {}

    record Call(Expression of, String method) implements Expression {}

    record Cast(Expression of, String type) implements Expression {}

    record Number(int value) implements Expression {}

    /** A call of an advice: {@code flink.sent(state, $2)}. */
    record Advice(String advice, String method, List<Expression> args) {}

    /** Returns the name at the beginning of an expression, or null if it is a number. */
    default String root() {
        if (this instanceof Root r) {
            return r.name;
        }
        if (this instanceof Field f) {
            return f.of.root();
        }
        if (this instanceof Call c) {
            return c.of.root();
        }
        return this instanceof Cast c ? c.of.root() : null;
    }

    static Expression read(String text) {
        Parser p = new Parser(text);
        Expression e = p.expression();
        p.end();
        return e;
    }

    static Advice readAdvice(String text) {
        Parser p = new Parser(text);
        String advice = p.name();
        p.expect('.');
        String method = p.name();
        List<Expression> args = new ArrayList<>();
        p.expect('(');
        while (!p.take(')')) {
            args.add(p.expression());
            if (!p.take(',') && !p.peek(')')) {
                throw p.bad("a comma or a bracket is missing");
            }
        }
        p.end();
        return new Advice(advice, method, args);
    }

    /** Reads one expression by recursive descent. */
    final class Parser {
        private final String text;
        private int at;

        Parser(String text) {
            this.text = text;
        }

        IllegalArgumentException bad(String why) {
            return new IllegalArgumentException(
                    "\"" + text + "\": " + why + " at character " + (at + 1)
                    + ": write such as $1.id, this.queue.size() or ($1 as a.b.C).id");
        }

        private void blanks() {
            while (at < text.length() && text.charAt(at) == ' ') {
                at++;
            }
        }

        boolean peek(char c) {
            blanks();
            return at < text.length() && text.charAt(at) == c;
        }

        boolean take(char c) {
            boolean there = peek(c);
            at += there ? 1 : 0;
            return there;
        }

        void expect(char c) {
            if (!take(c)) {
                throw bad("'" + c + "' is missing");
            }
        }

        void end() {
            blanks();
            if (at < text.length()) {
                throw bad("there is more than one expression");
            }
        }

        String name() {
            blanks();
            int from = at;
            while (at < text.length() && Character.isJavaIdentifierPart(text.charAt(at))) {
                at++;
            }
            if (from == at) {
                throw bad("a name is missing");
            }
            return text.substring(from, at);
        }

        private String typeName() {
            StringBuilder b = new StringBuilder(name());
            while (take('.')) {
                b.append('.').append(name());
            }
            return b.toString();
        }

        private Expression root() {
            if (take('(')) {
                Expression e = expression();
                blanks();
                if (text.startsWith("as ", at)) {
                    at += 3;
                    e = new Cast(e, typeName());
                }
                expect(')');
                return e;
            }
            String name = name();
            if (name.matches("[0-9]{1,9}")) {
                return new Number(Integer.parseInt(name));
            }
            if (!name.matches("this|return|state|\\$[1-9][0-9]?")) {
                at -= name.length();
                throw bad("\"" + name + "\" is neither this, $1, return nor state");
            }
            return new Root(name);
        }

        Expression expression() {
            Expression e = root();
            while (take('.')) {
                String name = name();
                if (take('(')) {
                    expect(')');
                    e = new Call(e, name);
                } else {
                    e = new Field(e, name);
                }
            }
            return e;
        }
    }
}
