// Command cprof-question is the program that "cprof replay --find" starts. It looks for an order in
// which a condition holds. It is a separate program because of the size of the expression language.
// All of its code is in package replay/question.
package main
