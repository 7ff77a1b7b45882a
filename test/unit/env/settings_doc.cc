// Prints the page of all settings, which doc/settings.md holds.
#include <iostream>

#include "env/node_settings.h"

int main() { std::cout << sluice::settings_page({sluice::node_rows()}); }
