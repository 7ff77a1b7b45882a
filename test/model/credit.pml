/* The credit and epoch protocol of lib/proto and lib/agent, for Spin. doc/protocol.md maps laws, model and code.
 *
 * Two nodes. A flow is one direction of one lane: a sender with its ledger (txs, te, g, P, and stg, the staged message
 * that is R) and a receiver with its granter (rxs, re, G, X, F). Two shapes:
 *   default  two lanes, both from node 0 to node 1, which share the receives that node 1 has posted
 *   READS    one lane in both directions, where a read's request on one flow is answered by a response on the other
 *
 * A control channel (one for each lane and node) is go-back-N: frames stay in fr[] until they are acknowledged; wire has
 * a bit for each that is under way. A frame is lost, repeated or overtaken while the budgets last; a time-out sends
 * again what is gone. GRANT frames act on the ledger even when they are repeated or early, which the code's channel
 * prevents: so law 3 is shown without law 6. A message is a bit of dw, by epoch and number; it may come twice (a
 * post that failed and was sent again) and in any order.
 *
 * What the receiver does unasked is left open where the protocol leaves it open: after a release it may raise its grant,
 * or wait until it is asked (law 7). One worker stands between wire and granter: we is the epoch that it knows.
 *
 * Faults, one for each macro FAULT_...: each must be found (run_model.py --self-test).
 * Budgets: T0 and T1 tasks of the flows, C slots of window, CAP receives of a node, LOSS, DUP, REORDER, REFUSE, FENCES, RESTARTS.
 */
#ifndef T0
#define T0 2
#endif
#ifndef T1
#define T1 1
#endif
#ifndef C
#define C 2
#endif
#ifndef CAP
#define CAP 2
#endif
#ifndef LOSS
#define LOSS 1
#endif
#ifndef DUP
#define DUP 1
#endif
#ifndef REORDER
#define REORDER 1
#endif
#ifndef REFUSE
#define REFUSE 1
#endif
#ifndef FENCES
#define FENCES 1
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif

#define FLOOR 1  /* slots that each session is promised */
#define Q 1      /* requests that a peer may have open */
#define W 3      /* window of a control channel */
#define M 4      /* messages of an epoch, at most */
#define NF 2     /* flows */

#ifdef READS
#define NC 2     /* channels: lane * 2 + node */
#define LANE(f) 0
#define SRC(f) (f)
#define DST(f) (1 - (f))
#define BACK(f) (1 - (f))
#else
#define NC 4
#define LANE(f) (f)
#define SRC(f) 0
#define DST(f) 1
#endif
#define TXC(f) (LANE(f) * 2 + SRC(f))  /* the channel of a flow's sender */
#define RXC(f) (LANE(f) * 2 + DST(f))

/* What a run should have seen; pan prints the counts at its end. */
c_decl { \#include "cover.h" };
#define COVER(name) c_code { covered[name]++; }

mtype = { OPEN, GRANT, REQ, FENCE, DRAIN, ACK };                    /* frames */
#define S_OPENING 1  /* states of both tables of lib/proto/session.h, by role */
#define S_OPEN 2
#define S_STOP 3     /* sender: draining; receiver: fencing */
#define S_LAST 4     /* sender: drained; receiver: emptying */
#define WRITE 1      /* kinds of messages */
#define READ 2
#define RESP 3

typedef Frame { mtype ty; byte flow; byte ep; byte v; byte u };
typedef Channel { Frame fr[W]; byte n; byte got; byte wire };
Channel ch[NC];

typedef Flow {
  /* sender */
  byte txs; byte te; byte g; byte gq; byte P; byte Pq; byte stg; byte todo; byte wait_ack; byte done; byte reads;
  /* between */
  byte dw; byte kreq; byte kresp; byte stale;
  /* receiver */
  byte rxs; byte re; byte we; byte G; byte Gq; byte X; byte Xq; byte F; byte Fq; byte seen; byte carried;
  byte jobs; byte acks; byte home; byte homeq;
  bit open_due; bit want; bit gdue; bit fdue;
  byte placed;  /* ghost: messages placed, by epoch and number */
  byte writes;  /* ghost: writes placed */
};
Flow fl[NF];
byte rq[2];    /* receives posted by a node */
byte junk[2];  /* receives taken by what came without credit: repeated, or of another life */
bit started;
byte loss = LOSS, dup = DUP, reorder = REORDER, refuse = REFUSE, fences = FENCES, restarts = RESTARTS;

#define HELD(f) (fl[f].G - fl[f].F)
#define PROMISED(f) (HELD(f) > FLOOR -> HELD(f) : FLOOR)
#ifdef READS
#define ROOM(f) (CAP - PROMISED(f))
#define UNUSED_AT(n) (fl[1 - (n)].G - fl[1 - (n)].X)
#define JOBS(f) (fl[BACK(f)].jobs)  /* requests that this flow's sender has to answer */
#define KIND_OF_TASK (fl[f].todo == 1 -> READ : WRITE)
#else
#define ROOM(f) (CAP - PROMISED(0) - PROMISED(1))
#define UNUSED_AT(n) ((n) == 1 -> fl[0].G - fl[0].X + fl[1].G - fl[1].X : 0)
#define JOBS(f) 0
#define KIND_OF_TASK WRITE
#endif
#define SLOTS(f) (fl[f].g - fl[f].P)
#define CAN_RESPOND(f) (JOBS(f) > 0 && SLOTS(f) > 0)
#define CAN_TASK(f) (fl[f].todo > 0 && SLOTS(f) > 0 && (KIND_OF_TASK == WRITE || fl[f].gq > fl[f].Pq))
#define WAITING(f) \
  (fl[f].txs == S_OPEN && fl[f].stg == 0 && (fl[f].todo > 0 || JOBS(f) > 0) && !CAN_RESPOND(f) && !CAN_TASK(f))
/* The first time-out of a wait is longer than a frame's way; with EAGER it may come at any time. */
#ifdef EAGER
#define LATE_ENOUGH(f) true
#else
#define LATE_ENOUGH(f) (ch[RXC(f)].n == 0 && ch[TXC(f)].n == 0 && fl[f].dw == 0)
#endif
#define BIT(ep, number) (1 << (((ep) - 1) * M + (number)))
#define OVER(f) (fl[f].todo == 0 && fl[f].wait_ack == 0 && fl[f].reads == 0 && fl[f].stg == 0)
#define FINISHED (OVER(0) && OVER(1))

/* Law 6: state frames of one kind are outstanding at most once, and the window bounds them all. */
#define MAY(c, t) \
  (ch[c].n < W && (ch[c].n < 1 || ch[c].fr[0].ty != t) && (ch[c].n < 2 || ch[c].fr[1].ty != t))

inline send_frame(c, t, f_, ep_, v_, u_) {
  assert(ch[c].n < W);
  ch[c].fr[ch[c].n].ty = t;
  ch[c].fr[ch[c].n].flow = f_;
  ch[c].fr[ch[c].n].ep = ep_;
  ch[c].fr[ch[c].n].v = v_;
  ch[c].fr[ch[c].n].u = u_;
  ch[c].wire = ch[c].wire | (1 << ch[c].n);
  ch[c].n++
}

/* Laws 1 and 2, wherever a number moved. Both sides count the same epoch, or the sender has drained (its totals are the
 * old epoch's, and X <= P was checked when they were home). */
inline law_conservation(f_) {
  assert(fl[f_].P + (fl[f_].stg != 0 -> 1 : 0) <= fl[f_].g);
  assert(fl[f_].F <= fl[f_].X && fl[f_].Fq <= fl[f_].Xq);
  assert(fl[f_].X <= fl[f_].G && fl[f_].Xq <= fl[f_].Gq);
  assert(fl[f_].G <= fl[f_].F + C);
  if
  :: fl[f_].te == fl[f_].re ->
     assert(fl[f_].g <= fl[f_].G && fl[f_].gq <= fl[f_].Gq);
     assert(fl[f_].X <= fl[f_].P && fl[f_].Xq <= fl[f_].Pq)
  :: else -> assert(fl[f_].te + 1 == fl[f_].re || fl[f_].te == 0)
  fi;
  /* Over all sessions: what peers may still send has a receive. */
  assert(UNUSED_AT(DST(f_)) <= rq[DST(f_)] + junk[DST(f_)])
}

/* Law 3 and law 4: a maximum, and never beyond what was advertised. seq_newer: the frame is the next in order. */
inline apply_grant(f_, v_, u_, newer) {
#ifdef FAULT_INCREMENTAL
  fl[f_].g = fl[f_].g + v_;
  fl[f_].gq = fl[f_].gq + u_;
#else
  assert(!newer || (v_ >= fl[f_].g && u_ >= fl[f_].gq));
  if
  :: v_ > fl[f_].g -> fl[f_].g = v_
  :: else
  fi;
  if
  :: u_ > fl[f_].gq -> fl[f_].gq = u_
  :: else
  fi;
#endif
  assert(fl[f_].g <= fl[f_].P + C);
  law_conservation(f_)
}

/* Control::deliver: a frame that is the next in order. */
inline deliver(fr_) {
  f = fr_.flow;
  if
  :: fr_.ty == OPEN ->
     assert(fl[f].txs == S_OPENING);
     fl[f].txs = S_OPEN;
     fl[f].te = fr_.ep
  :: fr_.ty == GRANT && fr_.ep == fl[f].te && fl[f].txs == S_OPEN ->
     apply_grant(f, fr_.v, fr_.u, true)
  :: fr_.ty == GRANT && fr_.ep == fl[f].te + 1 && fl[f].txs == S_LAST ->  /* kGrantNextEpoch */
     COVER(NEXT_EPOCH_TX);
     fl[f].te++;
     fl[f].txs = S_OPEN;
     fl[f].g = 0; fl[f].gq = 0; fl[f].P = 0; fl[f].Pq = 0;
     apply_grant(f, fr_.v, fr_.u, true)
  :: fr_.ty == GRANT && !(fr_.ep == fl[f].te && fl[f].txs == S_OPEN) &&
     !(fr_.ep == fl[f].te + 1 && fl[f].txs == S_LAST) -> COVER(STALE_GRANT)  /* law 11: counted, changes nothing */
  :: fr_.ty == REQ ->  /* law 7: always answered, unless another epoch is on its way */
     if
     :: fr_.ep == fl[f].re && fl[f].rxs == S_OPEN -> fl[f].want = 1; fl[f].gdue = 1
     :: else -> COVER(STALE_REQUEST)
     fi
  :: fr_.ty == FENCE ->
     assert(fr_.ep == fl[f].te && fl[f].txs == S_OPEN);
     fl[f].txs = S_STOP
  :: fr_.ty == DRAIN ->
     assert(fr_.ep == fl[f].re && fl[f].rxs == S_STOP);
     assert(fr_.v <= fl[f].G && fr_.u <= fl[f].Gq);
     fl[f].rxs = S_LAST;
     fl[f].home = fr_.v;
     fl[f].homeq = fr_.u
  :: fr_.ty == ACK ->  /* law 12 */
     assert(fr_.ep == fl[f].te);
     assert(fl[f].wait_ack >= fr_.v);
     fl[f].wait_ack = fl[f].wait_ack - fr_.v;
     fl[f].done = fl[f].done + fr_.v;
     assert(fl[f].done <= fl[f].writes)
  fi
}

/* An acknowledgement: the first got frames are the peer's. The last place is cleared, so that equal states are equal. */
inline take_acked(c) {
  do
  :: ch[c].got > 0 ->
     if
     :: ch[c].fr[0].ty == OPEN ->  /* kOpenAcked: kGrantFirst */
        fl[ch[c].fr[0].flow].rxs = S_OPEN;
        fl[ch[c].fr[0].flow].want = 1
     :: else
     fi;
     ch[c].fr[0].ty = ch[c].fr[1].ty; ch[c].fr[0].flow = ch[c].fr[1].flow; ch[c].fr[0].ep = ch[c].fr[1].ep;
     ch[c].fr[0].v = ch[c].fr[1].v; ch[c].fr[0].u = ch[c].fr[1].u;
     ch[c].fr[1].ty = ch[c].fr[2].ty; ch[c].fr[1].flow = ch[c].fr[2].flow; ch[c].fr[1].ep = ch[c].fr[2].ep;
     ch[c].fr[1].v = ch[c].fr[2].v; ch[c].fr[1].u = ch[c].fr[2].u;
     ch[c].fr[2].ty = 0; ch[c].fr[2].flow = 0; ch[c].fr[2].ep = 0; ch[c].fr[2].v = 0; ch[c].fr[2].u = 0;
     ch[c].wire = ch[c].wire >> 1;
     ch[c].n--;
     ch[c].got--
  :: else -> break
  od
}

#define CAN_ARRIVE(c, i) ((ch[c].wire & (1 << i)) != 0 && (i <= ch[c].got || reorder > 0))

/* A frame of place i comes out of the wire, and is acknowledged at once unless that is lost; then its repetition is. */
inline arrive_frame(c, i) {
  if
  :: dup > 0 -> dup--                                            /* it will come again */
  :: ch[c].wire = ch[c].wire & ~(1 << i)
  fi;
  if
  :: i == ch[c].got ->
     ch[c].got++;
     deliver(ch[c].fr[i])
  :: i != ch[c].got && ch[c].fr[i].ty == GRANT ->                /* repeated or early: see above */
     f = ch[c].fr[i].flow;
     if
     :: ch[c].fr[i].ep == fl[f].te && fl[f].txs == S_OPEN -> COVER(GRANT_AGAIN); apply_grant(f, ch[c].fr[i].v, ch[c].fr[i].u, false)
     :: else
     fi
  :: else
  fi;
  if
  :: loss > 0 && ch[c].got > 0 -> COVER(LOST_ACK); loss--
  :: i < ch[c].got -> take_acked(c)
  :: i >= ch[c].got -> COVER(GAP); reorder--
  fi
}

proctype Link(byte c) {
  byte f;
end_link:
  do
  :: atomic { CAN_ARRIVE(c, 0) -> arrive_frame(c, 0); f = 0 }
  :: atomic { CAN_ARRIVE(c, 1) -> arrive_frame(c, 1); f = 0 }
  :: atomic { CAN_ARRIVE(c, 2) -> arrive_frame(c, 2); f = 0 }
  :: d_step { loss > 0 && (ch[c].wire & 1) != 0 -> COVER(LOST_FRAME); loss--; ch[c].wire = ch[c].wire & ~1 }
  :: d_step { loss > 0 && (ch[c].wire & 2) != 0 -> COVER(LOST_FRAME); loss--; ch[c].wire = ch[c].wire & ~2 }
  :: d_step { loss > 0 && (ch[c].wire & 4) != 0 -> COVER(LOST_FRAME); loss--; ch[c].wire = ch[c].wire & ~4 }
  :: d_step { ch[c].n > 0 && (ch[c].wire & ((2 << ch[c].got) - 1)) == 0 ->  /* CtrlChannel::take_repeat */
       COVER(REPEAT);
       ch[c].wire = (1 << ch[c].n) - 1 }
  od
}

inline put_message(kind) {
  fl[f].dw = fl[f].dw | BIT(fl[f].te, fl[f].P);
  if
  :: kind == READ -> fl[f].kreq = fl[f].kreq | BIT(fl[f].te, fl[f].P); fl[f].Pq++
  :: kind == RESP -> fl[f].kresp = fl[f].kresp | BIT(fl[f].te, fl[f].P)
  :: else
  fi;
  fl[f].P++;
  assert(fl[f].P <= M);
  fl[f].stg = 0
}

/* Law 10: what a post refuses stays staged, with its credit, and goes out before anything else. */
inline stage(kind) {
  fl[f].stg = kind;
  if
  :: refuse > 0 -> COVER(REFUSED_POST); refuse--
  :: put_message(kind)
  fi
}

/* A request's credit comes home when its last response is staged. What an earlier epoch left is not of this one. */
inline release_request(b) {
  fl[b].jobs--;
  if
  :: fl[b].carried > 0 -> fl[b].carried--
  :: else -> fl[b].Fq++
  fi;
  fl[b].want = 1
}

proctype Tx(byte f) {
end_tx:
  do
#ifdef READS
  :: atomic { fl[f].txs == S_OPEN && fl[f].stg == 0 && CAN_RESPOND(f) ->  /* law 13: responses before requests */
       release_request(BACK(f));
       stage(RESP);
       law_conservation(f) }
#endif
  :: atomic { fl[f].txs == S_OPEN && fl[f].stg == 0 && !CAN_RESPOND(f) && CAN_TASK(f) ->  /* law 9 */
       if
       :: KIND_OF_TASK == READ -> fl[f].todo--; fl[f].reads++; stage(READ)
       :: else -> fl[f].todo--; fl[f].wait_ack++; stage(WRITE)
       fi;
       law_conservation(f) }
  :: atomic { fl[f].stg != 0 -> put_message(fl[f].stg); law_conservation(f) }
#ifndef FAULT_NO_REQUEST
  :: d_step { WAITING(f) && MAY(TXC(f), REQ) && LATE_ENOUGH(f) ->                  /* law 7: the timer of Worker::scan_lane */
       COVER(REQUEST);
       send_frame(TXC(f), REQ, f, fl[f].te, 0, 0) }
#endif
  :: d_step { fl[f].txs == S_STOP && fl[f].stg == 0 && ch[TXC(f)].n < W ->  /* kPostsHome */
       fl[f].txs = S_LAST;
       send_frame(TXC(f), DRAIN, f, fl[f].te, fl[f].P, fl[f].Pq) }
  od
}

/* Worker::judge and what follows. ep, k: epoch and number of the message. */
inline accept_message(ep, k) {
#ifdef FAULT_NO_EPOCH
  if
  :: (fl[f].seen & BIT(fl[f].we, k)) != 0 -> junk[DST(f)]++
  :: else ->
#else
#ifndef FAULT_LATE_INBOX
  if
  :: ep != fl[f].we -> COVER(LATE_WORKER); fl[f].we = fl[f].re                       /* read the inbox before a message is called stale */
  :: else
  fi;
#endif
  if
  :: ep != fl[f].we || (fl[f].seen & BIT(ep, k)) != 0 ->         /* law 11, law 10 */
     COVER(REFUSED_MESSAGE);
     assert((fl[f].placed & BIT(ep, k)) != 0);                   /* dropping it loses nothing */
     junk[DST(f)]++
  :: else ->
#endif
     fl[f].seen = fl[f].seen | BIT(fl[f].we, k);
     fl[f].X++;
     assert(fl[f].X <= fl[f].G);                                 /* law 4: else the session would be fenced */
     assert((fl[f].placed & BIT(ep, k)) == 0);                   /* once */
     fl[f].placed = fl[f].placed | BIT(ep, k);
     if
     :: (fl[f].kreq & BIT(ep, k)) != 0 ->
        fl[f].Xq++;
        assert(fl[f].Xq <= fl[f].Gq);
        fl[f].jobs++;
        assert(fl[f].jobs <= Q)
#ifdef READS
     :: (fl[f].kresp & BIT(ep, k)) != 0 ->
        assert(fl[BACK(f)].reads > 0);
        fl[BACK(f)].reads--
#endif
     :: else -> fl[f].writes++; fl[f].acks++
     fi
  fi
}

inline arrive_message(ep, k) {
  if
  :: dup > 0 -> dup--                                            /* the post failed all the same: sent again */
  :: fl[f].dw = fl[f].dw & ~BIT(ep, k)
  fi;
  rq[DST(f)]--;
  accept_message(ep, k);
  law_conservation(f)
}
/* law_conservation says that a message with credit finds a receive; one without may have to wait for it. */
#define ON_WIRE(ep, k) ((fl[f].dw & BIT(ep, k)) != 0 && rq[DST(f)] > 0)

proctype Data(byte f) {
end_data:
  do
  :: atomic { ON_WIRE(1, 0) -> arrive_message(1, 0) }
  :: atomic { ON_WIRE(1, 1) -> arrive_message(1, 1) }
  :: atomic { ON_WIRE(1, 2) -> arrive_message(1, 2) }
  :: atomic { ON_WIRE(1, 3) -> arrive_message(1, 3) }
  :: atomic { ON_WIRE(2, 0) -> arrive_message(2, 0) }
  :: atomic { ON_WIRE(2, 1) -> arrive_message(2, 1) }
  :: atomic { ON_WIRE(2, 2) -> arrive_message(2, 2) }
  :: atomic { ON_WIRE(2, 3) -> arrive_message(2, 3) }
  :: atomic { fl[f].stale > 0 && rq[DST(f)] > 0 ->               /* of the session before the restart */
       fl[f].stale--;
       rq[DST(f)]--;
#ifdef FAULT_NO_SESSION
       fl[f].X++
#else
       COVER(OTHER_SESSION);
       junk[DST(f)]++
#endif
       ;
       law_conservation(f) }
  :: atomic { fl[f].X > fl[f].F ->                               /* law 5: receive posted, then F, then the grant */
#ifndef FAULT_GRANT_FIRST
       rq[DST(f)]++;
#endif
       fl[f].F++;
       if
       :: fl[f].want = 1                                         /* kLowCredit, or half is used up */
       :: skip                                                   /* the grant waits until it is asked for */
       fi;
       law_conservation(f) }
  :: d_step { junk[DST(f)] > 0 -> junk[DST(f)]--; rq[DST(f)]++ }
  :: d_step { fl[f].we != fl[f].re -> fl[f].we = fl[f].re }      /* kNextRxEpoch */
  od
}

/* Laws 8 and 15: a window of C at most, of what the floors leave. */
#define RISE(f) (ROOM(f) + HELD(f) < FLOOR -> FLOOR : (ROOM(f) + PROMISED(f) > C -> C : ROOM(f) + PROMISED(f)))
#define CAN_RAISE(f) (fl[f].F + RISE(f) > fl[f].G || fl[f].Fq + Q - fl[f].carried > fl[f].Gq)

#ifdef FAULT_HOLD_REQUESTS
#define REQUESTS_HOME(f) (fl[f].Fq == fl[f].homeq)
#else
#define REQUESTS_HOME(f) (fl[f].Xq == fl[f].homeq)
#endif
#ifdef FAULT_EARLY_EPOCH
#define ALL_HOME(f) (fl[f].rxs == S_LAST)
#else
#define ALL_HOME(f) (fl[f].rxs == S_LAST && fl[f].F == fl[f].home && REQUESTS_HOME(f) && fl[f].acks == 0)
#endif

proctype Rx(byte f) {
  byte r;
end_rx:
  do
  :: d_step { fl[f].open_due && ch[RXC(f)].n < W ->
       fl[f].open_due = 0;
       send_frame(RXC(f), OPEN, f, fl[f].re, 0, 0) }
  :: d_step { fl[f].rxs == S_OPEN && MAY(RXC(f), GRANT) && (fl[f].gdue || (fl[f].want && CAN_RAISE(f))) ->
       /* Control::share, CreditGranter::raise_to; the frame has the totals of now, risen or not */
       r = RISE(f);
       if
       :: fl[f].want && fl[f].F + r > fl[f].G -> fl[f].G = fl[f].F + r
       :: else
       fi;
       if
       :: fl[f].want && fl[f].Fq + Q - fl[f].carried > fl[f].Gq -> fl[f].Gq = fl[f].Fq + Q - fl[f].carried
       :: else
       fi;
       r = 0;
       fl[f].want = 0;
       fl[f].gdue = 0;
#ifdef FAULT_INCREMENTAL
       send_frame(RXC(f), GRANT, f, fl[f].re, fl[f].G - fl[f].home, fl[f].Gq - fl[f].homeq);
       fl[f].home = fl[f].G;  /* what was said so far */
       fl[f].homeq = fl[f].Gq;
#else
       send_frame(RXC(f), GRANT, f, fl[f].re, fl[f].G, fl[f].Gq);
#endif
       law_conservation(f) }
  :: d_step { fl[f].acks > 0 && MAY(RXC(f), ACK) ->
       send_frame(RXC(f), ACK, f, fl[f].re, fl[f].acks, 0);
       fl[f].acks = 0 }
  :: d_step { fl[f].fdue && ch[RXC(f)].n < W ->
       fl[f].fdue = 0;
       send_frame(RXC(f), FENCE, f, fl[f].re, 0, 0) }
  :: d_step { ALL_HOME(f) ->                                     /* Control::check_home */
       COVER(NEXT_EPOCH_RX);
       assert(fl[f].re == 1);
       if
       :: fl[f].Xq > fl[f].Fq -> COVER(CARRIED); fl[f].carried = fl[f].carried + fl[f].Xq - fl[f].Fq
       :: else
       fi;
       fl[f].re++;
       fl[f].rxs = S_OPEN;
       fl[f].G = 0; fl[f].Gq = 0; fl[f].X = 0; fl[f].Xq = 0; fl[f].F = 0; fl[f].Fq = 0;
       fl[f].home = 0; fl[f].homeq = 0;
       fl[f].want = 0;
       fl[f].gdue = 1 }                                          /* even of nothing: it opens the epoch */
  od
}

inline start(f, opened) {
  fl[f].txs = (opened -> S_OPEN : S_OPENING); fl[f].te = (opened -> 1 : 0); fl[f].g = 0; fl[f].gq = 0; fl[f].P = 0; fl[f].Pq = 0; fl[f].stg = 0;
  fl[f].todo = (f == 0 -> T0 : T1); fl[f].wait_ack = 0; fl[f].done = 0; fl[f].reads = 0;
  fl[f].dw = 0; fl[f].kreq = 0; fl[f].kresp = 0;
  fl[f].rxs = (opened -> S_OPEN : S_OPENING); fl[f].re = 1; fl[f].we = 1; fl[f].G = 0; fl[f].Gq = 0; fl[f].X = 0; fl[f].Xq = 0;
  fl[f].F = 0; fl[f].Fq = 0; fl[f].seen = 0; fl[f].carried = 0; fl[f].jobs = 0; fl[f].acks = 0; fl[f].home = 0;
  fl[f].homeq = 0; fl[f].open_due = !opened; fl[f].want = opened; fl[f].gdue = 0; fl[f].fdue = 0; fl[f].placed = 0;
  fl[f].writes = 0
}

inline clear_channel(c) {
  ch[c].n = 0; ch[c].got = 0; ch[c].wire = 0;
  ch[c].fr[0].ty = 0; ch[c].fr[0].flow = 0; ch[c].fr[0].ep = 0; ch[c].fr[0].v = 0; ch[c].fr[0].u = 0;
  ch[c].fr[1].ty = 0; ch[c].fr[1].flow = 0; ch[c].fr[1].ep = 0; ch[c].fr[1].v = 0; ch[c].fr[1].u = 0;
  ch[c].fr[2].ty = 0; ch[c].fr[2].flow = 0; ch[c].fr[2].ep = 0; ch[c].fr[2].v = 0; ch[c].fr[2].u = 0
}

/* A node starts again: its peer ends the sessions (tasks end as failed, receives go back), and new ones open with new
 * numbers. Frames of the old ones find no session; a message of each may still come. */
inline restart() {
  fl[0].stale = (fl[0].dw != 0 -> 1 : 0);
  fl[1].stale = (fl[1].dw != 0 -> 1 : 0);
  start(0, false);
  start(1, true);
  rq[0] = CAP - junk[0];
  rq[1] = CAP - junk[1];
  clear_channel(0);
  clear_channel(1)
#ifndef READS
  ;
  clear_channel(2);
  clear_channel(3)
#endif
}

/* What happens from outside: an idle time ends in FENCE, a node starts again. Or neither. */
proctype World() {
end_world:
  do
  :: d_step { fences > 0 && fl[0].rxs == S_OPEN && fl[0].re == 1 -> COVER(FENCED); fences--; fl[0].rxs = S_STOP; fl[0].fdue = 1 }
#ifdef READS
  :: d_step { fences > 0 && fl[1].rxs == S_OPEN && fl[1].re == 1 -> COVER(FENCED); fences--; fl[1].rxs = S_STOP; fl[1].fdue = 1 }
#endif
  :: d_step { restarts > 0 -> COVER(RESTARTED); restarts--; restart() }
  :: d_step { fences + restarts > 0 -> fences = 0; restarts = 0 }
  od
}

/* Laws 7 and 12: when nothing moves any more, every task has ended. (timeout: no process can go on.) */
active proctype Quiet() {
  timeout ->
  assert(FINISHED);
  assert(fl[0].F == fl[0].X && fl[1].F == fl[1].X);              /* all receives are home */
  assert(rq[0] == CAP && rq[1] == CAP)
}

#ifdef LIVE
ltl ends { <> (started && FINISHED) }
#endif

init {
  atomic {
    c_code { atexit(print_covered); };
    rq[0] = CAP;
    rq[1] = CAP;
    start(0, false);
    start(1, true);
    started = 1;
    run Link(0);
    run Link(1);
#ifndef READS
    run Link(2);
    run Link(3);
#endif
    run Tx(0); run Data(0); run Rx(0);
    run Tx(1); run Data(1); run Rx(1);
    run World()
  }
}
