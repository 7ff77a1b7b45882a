"""What the checks hold the tree to. A rule that has to bend for one file bends here, in a row with its reason."""

# Folders outside lib/ (whose own table is read from lib/meson.build): which libs a file may include.
DRIVER_USES = ('base', 'stats', 'mem', 'xport')
APP_USES = ('base', 'stats', 'env', 'agent', 'engine', 'program')  # program: what both programs do (app/program)

# Which folders may include an external header; its name starts with the first column.
EXTERNAL = [
    ('rte_', ('lib/env', 'lib/mem', 'lib/agent', 'lib/stats', 'lib/engine', 'drivers', 'app', 'test')),
    ('rdma/', ('drivers/fabric', 'test/perf', 'test/contract', 'test/unit')),
    ('infiniband/', ('drivers/verbs', 'test/perf', 'test/unit/verbs', 'test/verbs')),
    ('spdlog/', ('lib/base',)),
    ('hwloc', ('lib/env', 'test/unit/env')),
    ('toml++/', ('lib/env',)),
    ('openssl/', ('lib/meta', 'test')),
]
# proto is pure: no clock, no thread, no input or output, no log.
PURE_FOLDERS = ('lib/proto/',)
PURE_REFUSES = r'^(rte_.*|chrono|ctime|time\.h|thread|mutex|iostream|fstream|cstdio|unistd\.h|sys/.*|base/log\.h)$'

# Files whose calls run in a turn. In them, a function whose verb says that it is slow (SLOW_VERBS, constructors and
# destructors) may do what it likes; so may one under a comment line '// slow: why', and a line that ends with one.
HOT_FILES = [
    'lib/proto/*', 'lib/agent/worker*', 'lib/agent/lane*', 'lib/agent/port*', 'drivers/*/*queue.h',
    'drivers/*/*queue.cc', 'drivers/*/post.cc', 'drivers/*/poll.cc',
]
SLOW_VERBS = (r'^(open|close|reg|dereg|connect|address|make|create|init|setup|shutdown|describe|probe|start|stop)'
              r'(_\w+)?$')
HOT_REFUSES = [
    # what              pattern
    ('heap',            r'\bnew\b(?!\s*\((?!std::nothrow))|\bdelete\b(?!\s*[;,)])|\b(m|c|re)alloc\s*\(|\bfree\s*\('),
    ('heap',            r'\bmake_(unique|shared)\b|\brte_[zc]?malloc|\w+\.(push_back|emplace_back|resize|insert)\('),
    ('string',          r'\bstd::(string|ostringstream|stringstream|to_string|format)\b|\b(sn?|vsn?)?printf\s*\('),
    ('map',             r'\bstd::(unordered_)?(multi)?(map|set)\b|\bstd::(list|deque)\b'),
    ('std::function',   r'\bstd::(function|any)\b'),
    ('lock',            r'\bstd::(\w+_)?mutex\b|\b(lock_guard|(unique|scoped)_lock|condition_var\w*)\b'),
    ('lock',            r'\bpthread_(mutex|rwlock|spin|cond)_|\brte_(spinlock|rwlock|ticketlock)_'),
    ('log',             r'\blog_(line|debug|info|warn|error)\s*\(|\bRTE_LOG|\bspdlog::'),
    ('clock',           r'\bclock_gettime\s*\(|\bstd::chrono\b|\brte_(rdtsc|get_tsc_cycles)\w*\s*\('),
    ('system call',     r'(?<![\w.>:])(::(read|write|send|recv|close|open)|(::)?(sendmsg|recvmsg|ioctl|mmap|munmap'
                        r'|usleep|nanosleep|sched_yield|getpid|syscall|fcntl|epoll_wait))\s*\('),
    ('exception',       r'\bthrow\b|\btry\b|\bdynamic_cast\b'),
]
# Of these, what a hot file may not even keep as a member.
HOT_MEMBERS_REFUSE = ('map', 'std::function', 'lock')

# Nowhere in lib/ and drivers/: it ends the process of an application, or writes where it was not asked to.
LIB_REFUSES = [
    ('ends the process', r'(?<![\w.>:])(std::|::)?(_exit|exit|_Exit|quick_exit)\s*\((?!\s*\))|\bstd::terminate\s*\('),
    ('ends the process', r'(?<![\w.>:])(std::|::)?abort\s*\(\s*\)|\brte_(exit|panic)\s*\('),
    ('prints',           r'(?<![\w.>])(std::)?(v?f?printf|f?puts|putchar|perror)\s*\(|\bstd::(cout|cerr)\b'),
    ('throws',           r'\bthrow\b'),
    ('a lock is a design question: give the object one owner, or list the reason in test/check/tables.py',
                         r'\bstd::(recursive_|shared_|timed_)?mutex\b|\bpthread_(mutex|rwlock|spin)_|\brte_spinlock_'),
]

MAX_HEADER_LINES = 200
MAX_SOURCE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_COLUMNS = 120
MIN_COPY_LINES = 6

# rule, file, the word in the finding that is excused ('' for all), why.
EXCUSED = [
    ('sizes', 'test/unit/meta/oob_test.cc', '405 lines', 'one law after another, of one object'),
    ('refused', 'lib/env/eal.cc', 'std::mutex', 'EAL is one for a process; slow calls only'),
    ('refused', 'lib/engine/memory_table.h', 'std::mutex', 'a port takes a new snapshot when memory came or went'),
    ('refused', 'lib/engine/segment_table.h', 'std::mutex', 'readers come and go with ports; reading takes none'),
    ('refused', 'lib/engine/rails.h', 'std::mutex', 'a device takes one registration at a time; slow calls only'),
    ('refused', 'lib/engine/node.h', 'std::mutex', 'public calls come from any thread; no turn takes it'),
    ('refused', 'lib/engine/service.h', 'std::mutex', "the node's lock; no turn takes it"),
    ('refused', 'lib/engine/service_thread.h', 'std::mutex', "the node's lock; no turn takes it"),
    ('refused', 'lib/engine/service_thread.cc', 'std::mutex', "the node's lock; no turn takes it"),
    ('refused', 'lib/engine/service.cc', 'std::mutex', "the node's lock; no turn takes it"),
    ('sizes', 'test/perf/raw_fabric.cc', '', 'what ours is measured against stands alone, in one file'),
]
