// Command race has a planted race: a lost update. Tellers on several nodes read a balance from an
// account, and write it back with a deposit. If two of them read the same balance, one deposit is
// lost. This happens rarely, so most runs lose none.
//
//	race -account :7070                      # on one node
//	race -teller 1 -deposits 20 host:7070    # on each node, with another number
//	race -nodes runs/race                    # or all of it on three virtual nodes of one machine
//
// Each teller logs two events for a deposit: at teller/read when it has read the balance, and at
// teller/write when it has written the balance. The id of both events is the amount of the deposit.
// cprof replay finds an order in which a deposit is lost, even if the run lost none: docs/replay.md
// shows how.
package main
