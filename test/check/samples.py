"""A bad tree for each rule, in which it must find what the words say, and trees in which it must find nothing.
A check that cannot fail checks nothing."""

LIB_TABLE = {'lib/meson.build': "  ['base', []],\n  ['proto', ['base']],\n  ['agent', ['base', 'proto']],\n"}
LONG_BODY = 'void f() {\n' + '  g();\n' * 60 + '}\n'
COPY = ''.join(f'  step_{i}(queue);\n' for i in range(6))
DOC = '/// @file a.h\n/// What.\n///\n/// Model    x\n/// Threads  x\n/// Memory   x\n/// Errors   x\n#pragma once\n'
HOME = '/ho' + 'me/someone/x'

# rule, files, a word of the finding
BAD = [
    ('layers', {**LIB_TABLE, 'lib/base/a.cc': '#include "proto/credit.h"\n'}, 'may include only'),
    ('layers', {**LIB_TABLE, 'lib/agent/a.cc': '#include "lane.h"\n'}, 'root of lib'),
    ('layers', {**LIB_TABLE, 'lib/proto/a.cc': '#include <chrono>\n'}, 'pure'),
    ('layers', {**LIB_TABLE, 'lib/new/a.cc': '\n'}, 'not in the table'),
    ('layers', {**LIB_TABLE, 'drivers/loop/a.cc': '#include "proto/credit.h"\n'}, 'may include only'),
    ('layers', {**LIB_TABLE, 'drivers/loop/a.cc': '#include "fabric/queue.h"\n'}, 'may include only'),
    ('layers', {**LIB_TABLE, 'drivers/loop/a.cc': '#include "../fabric/queue.h"\n'}, 'climbs'),
    ('layers', {**LIB_TABLE, 'app/bench/a.cc': '#include "fabric/queue.h"\n'}, 'may include only'),
    ('layers', {}, 'table of libs'),
    ('external', {'lib/agent/a.cc': '#include <rdma/fabric.h>\n'}, 'belongs in'),
    ('external', {'lib/proto/a.cc': '#include <rte_ring.h>\n'}, 'belongs in'),
    ('hot', {'lib/proto/a.cc': 'void f() {\n  auto* x = new int;\n}\n'}, 'heap'),
    ('hot', {'lib/proto/a.cc': 'void f() { free(x); }\n'}, 'heap'),
    ('hot', {'lib/agent/lane_tx.cc': 'void Lane::f() {\n  v_.push_back(1);\n}\n'}, 'heap'),
    ('hot', {'lib/agent/worker.cc': 'void f() {\n  std::string s;\n}\n'}, 'string'),
    ('hot', {'lib/agent/worker.h': 'class W {\n  std::map<int, int> m_;\n};\n'}, 'map'),
    ('hot', {'lib/agent/worker.h': 'class W {\n  std::function<void()> f_;\n};\n'}, 'std::function'),
    ('hot', {'lib/agent/port.cc': 'void f() {\n  std::lock_guard guard(m);\n}\n'}, 'lock'),
    ('hot', {'drivers/x/x_queue.cc': 'uint32_t Q::poll() {\n  log_warn("a", "b");\n}\n'}, 'log'),
    ('hot', {'drivers/x/queue.cc': 'uint32_t Q::poll() {\n  ::write(fd, p, n);\n}\n'}, 'system call'),
    ('hot', {'lib/proto/a.cc': 'void f() {\n  clock_gettime(CLOCK_REALTIME, &t);\n}\n'}, 'clock'),
    ('hot', {'lib/proto/a.cc': 'void f() {\n  try {\n  } catch (...) {\n  }\n}\n'}, 'exception'),
    ('refused', {'lib/meta/a.cc': 'void f() {\n  exit(1);\n}\n'}, 'ends the process'),
    ('refused', {'lib/meta/a.cc': 'void f() {\n  std::abort();\n}\n'}, 'ends the process'),
    ('refused', {'drivers/x/a.cc': 'void f() { rte_exit(1, "x"); }\n'}, 'ends the process'),
    ('refused', {'drivers/x/a.cc': 'void f() { std::printf("x"); }\n'}, 'prints'),
    ('refused', {'drivers/x/a.cc': 'void f() { throw 1; }\n'}, 'throws'),
    ('refused', {'lib/meta/a.h': 'class A {\n  std::mutex m_;\n};\n'}, 'lock'),
    ('sizes', {'lib/base/a.h': '\n' * 201}, '201 lines'),
    ('sizes', {'lib/base/a.cc': '\n' * 401}, '401 lines'),
    ('sizes', {'lib/base/a.cc': f'namespace a {{\n{LONG_BODY}}}\n'}, 'f has 62 lines'),
    ('sizes', {'lib/base/a.cc': LONG_BODY.replace('void f()', 'A::A(int a) : a_{a}, b_{2}')}, 'A::A has 62 lines'),
    ('copies', {'drivers/a/a.cc': f'void f() {{\n{COPY}}}\n', 'drivers/b/b.cc': f'void g() {{\n\n{COPY}}}\n'}, 'as in'),
    ('headers', {'lib/base/a.h': '#pragma once\n'}, 'opens with'),
    ('headers', {'lib/base/a.h': DOC.replace('Threads', 'Fibers ')}, 'lacks Threads'),
    ('headers', {'lib/base/a.h': DOC.replace('#pragma once\n', '')}, 'pragma'),
    ('names', {'lib/base/MyFile.cc': ''}, 'snake_case'),
    ('names', {'lib/base/string_utils.cc': ''}, 'says nothing'),
    ('text', {'doc/a.md': f'see {HOME}\n'}, 'one machine'),
    ('text', {'lib/base/a.cc': '/' * 121 + '\n'}, '121 columns'),
    ('text', {'lib/base/a.cc': 'int a; \n'}, 'blanks'),
    ('text', {'lib/base/a.cc': 'int a;'}, 'no end'),
]

GOOD = [
    ('layers', {**LIB_TABLE, 'lib/agent/a.cc': '#include "proto/credit.h"\n',
                'app/bench/a.cc': '#include "bench/mode.h"\n',
                'drivers/loop/a.cc': '#include "loop_queue.h"\n#include "mem/region.h"\n'}),
    ('external', {'drivers/fabric/a.cc': '#include <rdma/fabric.h>\n', 'lib/agent/a.cc': '#include <rte_ring.h>\n'}),
    ('hot', {'lib/agent/worker_rx.cc': 'void Worker::f() {\n  seen_.push_back(1);\n}\n',
             'lib/agent/worker.cc': 'Worker::Worker(int n) : n_{n} {\n  v_.resize(n);\n  seen_.reserve(n);\n}\n'
                                    'Status Worker::open_lane() {\n  v_.push_back(1);\n}\n'
                                    '// slow: once for each peer\nvoid Worker::add() {\n  v_.push_back(1);\n}\n'
                                    'void Worker::turn() {\n  f(std::string_view("new free()"));  // malloc()\n'
                                    '  new (place) Task{};\n  queue_->read(x);\n  send(x);\n}\n'
                                    'A& operator=(const A&) = delete;\n',
             'lib/agent/worker.h': 'class W {\n  Status open_lane(std::string name);\n  std::string name_;\n};\n',
             'lib/agent/control.cc': 'void f() {\n  std::string s;\n}\n'}),
    ('refused', {'lib/proto/a.cc': 'Code RxTasks::abort(TaskId task) noexcept {\n  return tasks.abort(task);\n}\n'
                                   'void f() {\n  std::snprintf(p, n, "exit(1)");\n}\n'}),
    ('sizes', {'lib/base/a.cc': '\n' * 400, 'lib/base/b.cc': LONG_BODY.replace('  g();\n', '', 2)}),
    ('copies', {'drivers/a/a.h': ''.join(f'  void f{i}() override;\n' for i in range(9)),
                'drivers/b/b.h': ''.join(f'  void f{i}() override;\n' for i in range(9)),
                'drivers/a/a.cc': COPY * 2, 'drivers/b/b.cc': ''.join(COPY.splitlines(True)[:5])}),
    ('headers', {'lib/base/a.h': DOC}),
    ('names', {'lib/base/string_list.cc': ''}),
    ('text', {'doc/a.md': 'mount /dev/hugepages; build/work/x\n', 'lib/base/a.cc': 'int a;\n'}),
]
