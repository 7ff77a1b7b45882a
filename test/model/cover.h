/* Counts of what happened while pan searched: of all transitions tried, not of one run. */
#include <stdio.h>
#include <stdlib.h>

#define COVERED(x)                                                                                                 \
  x(LOST_FRAME) x(LOST_ACK) x(REPEAT) x(GAP) x(GRANT_AGAIN) x(REQUEST) x(FENCED) x(NEXT_EPOCH_TX) x(NEXT_EPOCH_RX) \
      x(REFUSED_MESSAGE) x(REFUSED_POST) x(RESTARTED) x(OTHER_SESSION) x(LATE_WORKER) x(CARRIED) x(STALE_GRANT)    \
          x(STALE_REQUEST)
#define ONE(name) name,
#define TEXT(name) #name,

enum { COVERED(ONE) COVERED_N };
static long covered[COVERED_N];

static inline void print_covered(void) {
  static const char* names[] = {COVERED(TEXT)};
  int i;
  for (i = 0; i < COVERED_N; i++) printf("covered %s %ld\n", names[i], covered[i]);
}
