// Package java has the command for programs on the JVM: "cprof java check".
//
// The Java agent's jar does the check. This package finds a java and the jar, runs them, and says
// what to do if something is not there.
package java
