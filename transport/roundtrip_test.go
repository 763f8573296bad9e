package transport

const echoProcess = "MOEPOOL_TEST_ECHO"

func runEchoProcess() {}
